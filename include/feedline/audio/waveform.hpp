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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_AUDIO)
#include <algorithm>
#include <stdexcept>
#include <string>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE void shift_time(std::span<float> samples, std::ptrdiff_t frames, shift_edge edge) {
  const auto size = static_cast<std::ptrdiff_t>(samples.size());
  frames = std::clamp(frames, -size, size);
  const std::ptrdiff_t split = frames < 0 ? -frames : size - frames; // becomes the first sample
  std::rotate(samples.begin(), samples.begin() + split, samples.end());
  if (edge == shift_edge::wrap) return;
  if (frames < 0) std::fill(samples.end() + frames, samples.end(), 0.0f);
  else std::fill_n(samples.begin(), frames, 0.0f);
}

} // namespace feedline::inline FEEDLINE_ABI

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void check_range(const char* what, double low, double high) {
  if (!(std::isfinite(low) && std::isfinite(high) && low <= high))
    throw std::invalid_argument(std::string(what) + " is from " + std::to_string(low) + " to " +
                                std::to_string(high) + "; both must be finite, the lower one first");
}

} // namespace feedline::inline FEEDLINE_ABI::detail

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE void random_gain::operator()(std::span<float> samples, random_generator& random) const {
  detail::check_range("feedline::random_gain: the range of decibels", min_decibels, max_decibels);
  const bool applies = random.chance(probability);
  const double decibels = random.uniform(min_decibels, max_decibels);
  if (applies) apply_gain(samples, decibels);
}

FEEDLINE_INLINE void random_time_shift::operator()(std::span<float> samples, random_generator& random) const {
  if (!(max_share >= 0 && max_share <= 1))
    throw std::invalid_argument("feedline::random_time_shift: max_share is " + std::to_string(max_share) +
                                ", but must be from 0 to 1");
  const bool applies = random.chance(probability);
  const double share = random.uniform(-max_share, max_share);
  if (applies)
    shift_time(samples, static_cast<std::ptrdiff_t>(share * static_cast<double>(samples.size())), edge);
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
