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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_AUDIO)
#include <cstddef>
#include <stdexcept>
#include <string>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE double mean_power(std::span<const float> samples) {
  // Four independent sums, so that the additions can overlap.
  double sums[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= samples.size(); i += 4)
    for (std::size_t j = 0; j < 4; ++j) sums[j] += double{samples[i + j]} * double{samples[i + j]};
  for (; i < samples.size(); ++i) sums[0] += double{samples[i]} * double{samples[i]};
  return samples.empty() ? 0 : (sums[0] + sums[1] + sums[2] + sums[3]) / static_cast<double>(samples.size());
}

FEEDLINE_INLINE void add_noise(std::span<float> samples, std::span<const float> noise, double snr_decibels) {
  if (noise.size() != samples.size())
    throw std::invalid_argument("feedline::add_noise: the noise has " + std::to_string(noise.size()) +
                                " samples, but the clip has " + std::to_string(samples.size()) +
                                "; crop or pad the noise first");
  const double power = mean_power(noise);
  if (!(power > 0)) return;
  const double ratio = std::pow(10.0, snr_decibels / 10);
  const auto factor = static_cast<float>(std::sqrt(mean_power(samples) / (power * ratio)));
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] += factor * noise[i];
}

FEEDLINE_INLINE void random_white_noise::operator()(std::span<float> samples,
                                                    random_generator& random) const {
  detail::check_range("feedline::random_white_noise: the range of decibels", min_snr_decibels,
                      max_snr_decibels);
  const bool applies = random.chance(probability);
  const double snr = random.uniform(min_snr_decibels, max_snr_decibels);
  random_generator own(random()); // so that later draws don't depend on the clip's length
  if (!applies) return;
  const auto deviation = static_cast<float>(std::sqrt(mean_power(samples) / std::pow(10.0, snr / 10)));
  if (!(deviation > 0)) return;
  for (float& s : samples) s += deviation * detail::draw_normal(own);
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
