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

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/mixup.ipp>
#endif
