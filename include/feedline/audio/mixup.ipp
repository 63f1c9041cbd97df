// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/audio/mixup.hpp>

#include <cstddef>
#include <stdexcept>
#include <string>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE void mix_clips(std::span<float> samples, std::span<const float> other, float weight) {
  if (samples.size() != other.size())
    throw std::invalid_argument("feedline::mix_clips: " + std::to_string(samples.size()) +
                                " samples can't be mixed with " + std::to_string(other.size()) +
                                "; crop or pad them to the same length first");
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = weight * samples[i] + (1 - weight) * other[i];
}

} // namespace feedline::inline FEEDLINE_ABI

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE double draw_beta(double alpha, random_generator& random) {
  // Above 0, so that its logarithm is finite.
  const auto draw = [&random] { return 1 - random.uniform(); };
  if (alpha <= 1) {
    for (;;) {
      // u^(1/alpha) may be too small for a double; its logarithm isn't.
      const double x = std::log(draw()) / alpha, y = std::log(draw()) / alpha;
      const double higher = x > y ? x : y;
      const double log_sum = higher + std::log(std::exp(x - higher) + std::exp(y - higher));
      if (log_sum <= 0) return std::exp(x - log_sum);
    }
  }
  const double beta = std::sqrt(1 / alpha), gamma = alpha + 1 / beta;
  for (;;) {
    const double u = draw() * (1 - 0x1p-53), v = beta * std::log(u / (1 - u)), w = alpha * std::exp(v);
    const double bound = 2 * alpha * std::log(2 * alpha / (alpha + w)) + gamma * v - std::log(4.0);
    if (bound >= std::log(u * u * draw())) return w / (alpha + w);
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE float mixup::operator()(std::span<float> samples, std::span<const float> other,
                                        random_generator& random) const {
  if (!(alpha > 0 && alpha < 1e6))
    throw std::invalid_argument("feedline::mixup: alpha is " + std::to_string(alpha) +
                                ", but must be above 0");
  random_generator own(random()); // so that later draws don't depend on how often it draws
  const auto weight = static_cast<float>(detail::draw_beta(alpha, own));
  mix_clips(samples, other, weight);
  return weight;
}

} // namespace feedline::inline FEEDLINE_ABI
