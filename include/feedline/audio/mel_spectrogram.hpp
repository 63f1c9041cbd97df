// SPDX-License-Identifier: MIT
#pragma once
// Computes mel spectrograms and filter banks.
#include <cmath>
#include <cstddef>
#include <span>

#include <feedline/audio/detail/lanes.hpp>
#include <feedline/audio/detail/mel_filters.hpp>
#include <feedline/audio/detail/power_spectrum.hpp>
#include <feedline/audio/detail/windowed_frames.hpp>
#include <feedline/audio/mel_options.hpp>
#include <feedline/audio/spectrogram_view.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Computes mel spectrograms of clips of one channel: windowed frames, their power spectra, triangular
/// filters, and optionally logarithms.
///
/// It is expensive to construct and inexpensive to copy into a stage. It is constant, so construct one and
/// share it among all workers. Each thread keeps memory of 10 floats per sample of the FFT's length; later
/// calls allocate nothing. The same clip yields the same bytes in every thread and run, for one build on one
/// kind of machine. (The compiler's and FFTW's vector instructions round differently on other machines. If
/// the program loads FFTW's wisdom, that can change its plans.)
///
///     const mel_spectrogram features({.sample_rate = 32'000, .fft_length = 1024, .hop_length = 320});
///     features(samples, slot.get<&example::spectrogram>()); // 5 s at 32 kHz: [128, 501]
class mel_spectrogram {
 public:
  /// Throws std::invalid_argument for invalid options.
  explicit mel_spectrogram(const mel_options& options)
      : options_(checked(options)), frames_(options_), spectrum_(options_.fft_length), filters_(options_) {
    frames_.scale(spectrum_.input_scale());
  }

  /// The options, with the actual lengths and frequencies in place of zeros.
  const mel_options& options() const noexcept { return options_; }

  /// The number of mels of a frame.
  std::size_t mels() const noexcept { return options_.mels; }

  /// The number of frames of a clip of n samples: (n + 2 · padding - length) / hop_length + 1, rounded down.
  /// Centered frames have a length of fft_length, and fft_length / 2 of padding on either side; others have a
  /// length of window_length and no padding. 0 for a clip that is too short.
  std::size_t frames(std::size_t samples) const noexcept { return frames_.count(samples); }

  /// Writes the spectrogram of a clip, in options().layout. Throws std::invalid_argument for a clip that is
  /// too short, or unless `out` has mels() · frames(samples.size()) elements.
  void operator()(std::span<const float> samples, std::span<float> out) const;

 private:
  // The number of frames that are filtered together.
  static constexpr std::size_t block = detail::power_spectrum::power_step;

  // Raises squared magnitudes to the power of the options.
  void raise(float* power) const;

  detail::float_lanes value(detail::float_lanes sum) const noexcept {
    if (options_.values == mel_values::linear) return sum;
    const detail::float_lanes floor = detail::all_lanes(static_cast<float>(options_.floor));
    return detail::log_of_lanes(sum < floor ? floor : sum) * log_factor_;
  }

  // Filters a block of frames and stores the first `used` of them.
  void write(const float* power, std::size_t first, std::size_t used, std::size_t count, float* out) const;

  void limit_range(std::span<float> out) const;

  static mel_options checked(mel_options o);

  // Converts a natural logarithm to 10 or 20 times the decimal one.
  static float log_factor(const mel_options& o) noexcept {
    if (o.values != mel_values::decibels) return 1;
    return static_cast<float>((o.power == 1 ? 20 : 10) / std::log(10.0));
  }

  mel_options options_;
  detail::windowed_frames frames_;
  detail::power_spectrum spectrum_;
  detail::mel_filters filters_;
  float log_factor_ = log_factor(options_);
};

} // namespace feedline::inline FEEDLINE_ABI

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/mel_spectrogram.ipp>
#endif
