// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/audio/noise.hpp>

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
