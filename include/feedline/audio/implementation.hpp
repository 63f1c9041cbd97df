// SPDX-License-Identifier: MIT
#pragma once
// All definitions of audio/: see feedline/implementation.hpp.
#ifndef FEEDLINE_COMPILED
#error "Compile this file and all others that include feedline with -DFEEDLINE_COMPILED"
#endif
#include <feedline/audio/audio_decoder.ipp>
#include <feedline/audio/audio_error.ipp>
#include <feedline/audio/audio_resampler.ipp>
#include <feedline/audio/detail/fft_plan.ipp>
#include <feedline/audio/detail/float_buffer.ipp>
#include <feedline/audio/detail/mel_filters.ipp>
#include <feedline/audio/detail/opened_sound.ipp>
#include <feedline/audio/detail/power_spectrum.ipp>
#include <feedline/audio/detail/rate_converter.ipp>
#include <feedline/audio/detail/sound_chunks.ipp>
#include <feedline/audio/detail/wav_file.ipp>
#include <feedline/audio/detail/windowed_frames.ipp>
#include <feedline/audio/mel_options.ipp>
#include <feedline/audio/mel_spectrogram.ipp>
#include <feedline/audio/mixup.ipp>
#include <feedline/audio/noise.ipp>
#include <feedline/audio/spec_augment.ipp>
#include <feedline/audio/spectrogram_view.ipp>
#include <feedline/audio/waveform.ipp>
