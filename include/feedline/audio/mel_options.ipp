// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/audio/mel_options.hpp>

#include <bit>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE mel_options kaldi_filter_bank(double sample_rate, std::size_t mels) {
  mel_options o;
  o.sample_rate = sample_rate;
  // Rounded down to whole samples, as in Kaldi. mel_spectrogram refuses an invalid rate.
  const auto samples = [&](double seconds) {
    return sample_rate > 0 && sample_rate < 1e9 ? static_cast<std::size_t>(sample_rate * seconds) : 0;
  };
  o.window_length = samples(0.025);
  o.hop_length = samples(0.01);
  o.fft_length = std::bit_ceil(o.window_length);
  o.mels = mels;
  o.min_frequency = 20;
  o.values = mel_values::natural_log;
  o.floor = 1.1920928955078125e-07; // a float's epsilon
  o.periodic_window = false;
  o.remove_mean = true;
  o.pre_emphasis = 0.97;
  o.centered = false;
  o.slopes = mel_slopes::mels;
  o.layout = spectrogram_layout::frames_mels;
  return o;
}

} // namespace feedline::inline FEEDLINE_ABI
