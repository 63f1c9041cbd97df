// SPDX-License-Identifier: MIT
#pragma once
// Mixes two clips, or two spectrograms.
#include <cmath>
#include <span>

#include <feedline/core/random.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// samples = weight · samples + (1 - weight) · other. Throws std::invalid_argument if the lengths differ.
void mix_clips(std::span<float> samples, std::span<const float> other, float weight);

namespace detail {

/// Draws from the beta distribution with both parameters `alpha`. Up to 1 by M. D. Jöhnk, "Erzeugung von
/// betaverteilten und gammaverteilten Zufallszahlen", 1964; above 1 by algorithm BA of R. C. H. Cheng,
/// "Generating beta variates with nonintegral shape parameters", 1978.
double draw_beta(double alpha, random_generator& random);

} // namespace detail

/// Mixes two clips, or two spectrograms, with a random weight from the distribution Beta(alpha, alpha).
///
/// (H. Zhang et al., "mixup: Beyond Empirical Risk Minimization", 2018.)
///
///     const float weight = mixup{.alpha = 0.4}(samples, other, context.random);
///     // label = weight · label + (1 - weight) · the other label
struct mixup {
  double alpha = 0.4; ///< above 0; at 1 all weights are equally likely, below 1 those near 0 and 1 more so

  /// Mixes `other` into `samples` and returns the weight of `samples`. Throws std::invalid_argument if the
  /// lengths differ, or if `alpha` isn't positive.
  float operator()(std::span<float> samples, std::span<const float> other, random_generator& random) const;
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_AUDIO)
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
#endif
