// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/audio/waveform.hpp>

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
