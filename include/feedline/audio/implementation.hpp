// SPDX-License-Identifier: MIT
#pragma once
// All definitions of audio/: see feedline/implementation.hpp.
#define FEEDLINE_DEFINES_AUDIO
#include <feedline/detail/definitions.hpp>

#include <feedline/audio/audio_decoder.hpp>
#include <feedline/audio/audio_error.hpp>
#include <feedline/audio/audio_resampler.hpp>
#include <feedline/audio/detail/fft_plan.hpp>
#include <feedline/audio/detail/float_buffer.hpp>
#include <feedline/audio/detail/mel_filters.hpp>
#include <feedline/audio/detail/opened_sound.hpp>
#include <feedline/audio/detail/power_spectrum.hpp>
#include <feedline/audio/detail/rate_converter.hpp>
#include <feedline/audio/detail/sound_chunks.hpp>
#include <feedline/audio/detail/wav_file.hpp>
#include <feedline/audio/detail/windowed_frames.hpp>
#include <feedline/audio/mel_options.hpp>
#include <feedline/audio/mel_spectrogram.hpp>
#include <feedline/audio/mixup.hpp>
#include <feedline/audio/noise.hpp>
#include <feedline/audio/spec_augment.hpp>
#include <feedline/audio/spectrogram_view.hpp>
#include <feedline/audio/waveform.hpp>
