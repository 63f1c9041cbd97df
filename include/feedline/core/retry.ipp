// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/retry.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE void retry::check() const {
  if (attempts < 1) throw std::invalid_argument("feedline::retry: attempts is 0, but must be at least 1");
  if (first_pause.count() < 0 || longest_pause.count() < 0)
    throw std::invalid_argument("feedline::retry: a pause is negative");
  if (for_at_most.count() < 0) throw std::invalid_argument("feedline::retry: for_at_most is negative");
  if (!(factor >= 1 && factor <= 1e6))
    throw std::invalid_argument("feedline::retry: factor must be from 1 to 1,000,000");
  if (!(jitter >= 0 && jitter <= 1))
    throw std::invalid_argument("feedline::retry: jitter must be from 0 to 1");
}

FEEDLINE_INLINE std::chrono::nanoseconds retry::pause_after(std::size_t attempts_made,
                                                            random_generator& random) const {
  constexpr double longest = 4e18; // ns, which jitter may double
  const auto first = static_cast<double>(first_pause.count());
  double pause = std::min(static_cast<double>(longest_pause.count()), longest);
  if (const double growth = std::pow(factor, static_cast<double>(attempts_made - 1)); growth < pause / first)
    pause = first * growth;
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>((first > 0 ? pause : 0) * random.uniform(1 - jitter, 1 + jitter)));
}

FEEDLINE_INLINE retry_error::retry_error(const std::string& last_error, std::size_t tried)
    : std::runtime_error(last_error + "; tried " + std::to_string(tried) + " times"), attempts(tried) {}

FEEDLINE_INLINE retry_later::retry_later(const std::string& what, std::chrono::nanoseconds wait)
    : std::runtime_error(what), pause(wait) {}

} // namespace feedline::inline FEEDLINE_ABI
