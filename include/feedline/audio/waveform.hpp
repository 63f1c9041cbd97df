// SPDX-License-Identifier: MIT
#pragma once
// Samples changed in place: louder, inverted, shifted in time; and random changes.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include <feedline/core/random.hpp>

namespace feedline::inline v0 {

/// Makes samples louder, or for negative decibels quieter: multiplies by 10^(decibels / 20). Nothing is cut off.
inline void apply_gain(std::span<float> samples, double decibels) {
  const auto factor = static_cast<float>(std::pow(10.0, decibels / 20));
  for (float& s : samples) s *= factor;
}

/// Changes the sign of each sample.
inline void invert_polarity(std::span<float> samples) {
  for (float& s : samples) s = -s;
}

/// What comes where samples were shifted from.
enum class shift_edge : std::uint8_t {
  silence,
  wrap, ///< what was shifted out at the other end
};

/// Shifts samples of one channel to later (or for a negative `frames` to earlier), by at most their length.
inline void shift_time(std::span<float> samples, std::ptrdiff_t frames,
                       shift_edge edge = shift_edge::silence) {
  const auto size = static_cast<std::ptrdiff_t>(samples.size());
  frames = std::clamp(frames, -size, size);
  const std::ptrdiff_t split = frames < 0 ? -frames : size - frames; // what is here comes first
  std::rotate(samples.begin(), samples.begin() + split, samples.end());
  if (edge == shift_edge::wrap) return;
  if (frames < 0) std::fill(samples.end() + frames, samples.end(), 0.0f);
  else std::fill_n(samples.begin(), frames, 0.0f);
}

namespace detail {

/// Throws std::invalid_argument unless low <= high, both finite. `what`: "feedline::random_gain: decibels"
inline void check_range(const char* what, double low, double high) {
  if (!(std::isfinite(low) && std::isfinite(high) && low <= high))
    throw std::invalid_argument(std::string(what) + " between " + std::to_string(low) + " and " +
                                std::to_string(high) + ": the first must be the smaller one");
}

} // namespace detail

/// Applies a gain drawn from [min_decibels, max_decibels).
///
///     random_gain{-12, 6}(samples, context.random);
struct random_gain {
  double min_decibels = -6;
  double max_decibels = 6;
  double probability = 1;

  void operator()(std::span<float> samples, random_generator& random) const {
    detail::check_range("feedline::random_gain: decibels", min_decibels, max_decibels);
    const bool applies = random.chance(probability);
    const double decibels = random.uniform(min_decibels, max_decibels);
    if (applies) apply_gain(samples, decibels);
  }
};

/// Inverts the polarity with the given probability.
struct random_polarity {
  double probability = 0.5;

  void operator()(std::span<float> samples, random_generator& random) const {
    if (random.chance(probability)) invert_polarity(samples);
  }
};

/// Shifts samples of one channel in time, by a share of their length drawn from [-max_share, max_share).
struct random_time_shift {
  double max_share = 0.5; ///< from 0 to 1
  shift_edge edge = shift_edge::silence;
  double probability = 1;

  void operator()(std::span<float> samples, random_generator& random) const {
    if (!(max_share >= 0 && max_share <= 1))
      throw std::invalid_argument("feedline::random_time_shift: max_share is " + std::to_string(max_share) +
                                  ", but must be from 0 to 1");
    const bool applies = random.chance(probability);
    const double share = random.uniform(-max_share, max_share);
    if (applies)
      shift_time(samples, static_cast<std::ptrdiff_t>(share * static_cast<double>(samples.size())), edge);
  }
};

} // namespace feedline::inline v0
