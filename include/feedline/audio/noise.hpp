// SPDX-License-Identifier: MIT
#pragma once
// Adds noise, or a second clip, to samples.
#include <cmath>
#include <cstdint>
#include <span>

#include <feedline/audio/waveform.hpp>
#include <feedline/core/random.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// The mean of the squared samples; 0 for no samples.
double mean_power(std::span<const float> samples);

/// Adds noise of the same length, scaled to a signal-to-noise ratio (of the powers) of `snr_decibels`. Adds
/// nothing if the clip or the noise is silent.
///
/// Throws std::invalid_argument if the lengths differ.
void add_noise(std::span<float> samples, std::span<const float> noise, double snr_decibels);

namespace detail {

/// Draws a number of mean 0 and variance 1 from nearly a normal distribution: the sum of twelve uniform
/// numbers (Irwin and Hall). Unlike a logarithm it is the same on every platform. At most 6 in magnitude.
constexpr float draw_normal(random_generator& random) noexcept {
  std::uint64_t sum = 0;
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t bits = random();
    // Four numbers of 16 bits, added in pairs.
    const std::uint64_t pairs = (bits & 0x0000ffff0000ffff) + (bits >> 16 & 0x0000ffff0000ffff);
    sum += (pairs & 0xffffffff) + (pairs >> 32);
  }
  return (static_cast<float>(static_cast<std::int32_t>(sum)) - 12 * 32767.5f) * 0x1p-16f;
}

} // namespace detail

/// Adds white noise at a signal-to-noise ratio drawn from [min_snr_decibels, max_snr_decibels): the ratio of
/// the clip's power to the noise's expected power. Each noise sample is the sum of twelve uniform numbers:
/// nearly a normal distribution, and never above six standard deviations. Adds nothing to silence.
///
///     random_white_noise{.min_snr_decibels = 10, .max_snr_decibels = 40}(samples, context.random);
struct random_white_noise {
  double min_snr_decibels = 3;  ///< the loudest noise
  double max_snr_decibels = 30; ///< the softest noise
  double probability = 1;       ///< of adding noise

  /// Adds the noise in place. Throws std::invalid_argument unless min <= max, both finite.
  void operator()(std::span<float> samples, random_generator& random) const;
};

} // namespace feedline::inline FEEDLINE_ABI

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/noise.ipp>
#endif
