// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/metrics/gauge_counter.hpp>

#include <algorithm>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void gauge_counter::values::add(const values& other) noexcept {
  latest += other.latest;
  least += other.least;
  most += other.most;
  mean += other.mean;
  recent_least += other.recent_least;
  recent_most += other.recent_most;
  recent_mean += other.recent_mean;
}

FEEDLINE_INLINE gauge_counter::values gauge_counter::report(std::optional<double> latest) noexcept {
  const double now = latest.value_or(latest_.load(std::memory_order_relaxed));
  values v{now, now, now, now, now, now, now};
  const auto mean = [](double sum, std::uint64_t times, double least, double most) {
    return std::clamp(sum / static_cast<double>(times), least, most); // its parts may be of different moments
  };
  const std::uint64_t times = times_.load(std::memory_order_acquire);
  const double sum = sum_.load(std::memory_order_relaxed);
  if (times > 0) {
    v.least = all_.least.load(std::memory_order_relaxed);
    v.most = all_.most.load(std::memory_order_relaxed);
    v.mean = mean(sum, times, v.least, v.most);
  }
  constexpr double none = std::numeric_limits<double>::infinity();
  const bool in_range = is_finite(now);
  const double least = recent_.least.exchange(in_range ? now : none, std::memory_order_relaxed);
  const double most = recent_.most.exchange(in_range ? now : -none, std::memory_order_relaxed);
  if (least <= most) {
    v.recent_least = least;
    v.recent_most = most;
    if (times > reported_times_)
      v.recent_mean = mean(sum - reported_sum_, times - reported_times_, least, most);
  }
  reported_sum_ = sum;
  reported_times_ = times;
  // A value that came meanwhile may have widened the old range.
  if (const double newer = latest_.load(std::memory_order_relaxed); !latest && is_finite(newer))
    recent_.widen(newer);
  return v;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
