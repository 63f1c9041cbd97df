// SPDX-License-Identifier: MIT
#pragma once
// The component feedline::audio: decodes, resamples, crops and augments audio, and computes spectrograms.
#include <feedline/audio/audio_clip.hpp>
#include <feedline/audio/audio_decoder.hpp>
#include <feedline/audio/audio_error.hpp>
#include <feedline/audio/audio_resampler.hpp>
#include <feedline/audio/crop_or_pad.hpp>
#include <feedline/audio/mel_options.hpp>
#include <feedline/audio/mel_spectrogram.hpp>
#include <feedline/audio/mixup.hpp>
#include <feedline/audio/noise.hpp>
#include <feedline/audio/spec_augment.hpp>
#include <feedline/audio/spectrogram_view.hpp>
#include <feedline/audio/waveform.hpp>
