// SPDX-License-Identifier: MIT
#pragma once
// Augments waveforms in place: gain, polarity, shifts in time.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include <feedline/core/random.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Multiplies samples by 10^(decibels / 20): louder for positive decibels, quieter for negative ones. Doesn't
/// clip.
inline void apply_gain(std::span<float> samples, double decibels) {
  const auto factor = static_cast<float>(std::pow(10.0, decibels / 20));
  for (float& s : samples) s *= factor;
}

/// Changes the sign of each sample.
inline void invert_polarity(std::span<float> samples) {
  for (float& s : samples) s = -s;
}

/// What fills the samples that a shift uncovers.
enum class shift_edge : std::uint8_t {
  silence,
  wrap, ///< the samples that were shifted out at the other end
};

/// Shifts samples of one channel later in time, or earlier for negative `frames`, by at most their length.
void shift_time(std::span<float> samples, std::ptrdiff_t frames, shift_edge edge = shift_edge::silence);

namespace detail {

/// Throws std::invalid_argument unless low <= high, both finite. `what`: "feedline::random_gain: the range of
/// decibels"
void check_range(const char* what, double low, double high);

} // namespace detail

/// Applies a gain drawn from [min_decibels, max_decibels).
///
///     random_gain{-12, 6}(samples, context.random);
struct random_gain {
  double min_decibels = -6; ///< the lowest gain
  double max_decibels = 6;  ///< the highest gain
  double probability = 1;   ///< of a gain

  /// Changes the samples in place. Throws std::invalid_argument unless min <= max, both finite.
  void operator()(std::span<float> samples, random_generator& random) const;
};

/// Inverts the polarity with the given probability.
struct random_polarity {
  double probability = 0.5; ///< of inverting

  /// Changes the samples in place.
  void operator()(std::span<float> samples, random_generator& random) const {
    if (random.chance(probability)) invert_polarity(samples);
  }
};

/// Shifts samples of one channel in time, by a fraction of their length drawn from [-max_share, max_share).
struct random_time_shift {
  double max_share = 0.5;                ///< from 0 to 1
  shift_edge edge = shift_edge::silence; ///< what fills the gap
  double probability = 1;                ///< of a shift

  /// Changes the samples in place. Throws std::invalid_argument for a max_share outside [0, 1].
  void operator()(std::span<float> samples, random_generator& random) const;
};

} // namespace feedline::inline FEEDLINE_ABI

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/waveform.ipp>
#endif
