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
  if (const std::uint64_t times = all_.times.load(std::memory_order_acquire)) {
    v.least = all_.least.load(std::memory_order_relaxed);
    v.most = all_.most.load(std::memory_order_relaxed);
    v.mean = all_.sum.load(std::memory_order_relaxed) / static_cast<double>(times);
    v.mean = std::clamp(v.mean, v.least, v.most); // its two parts may be of different moments
  }
  constexpr double none = std::numeric_limits<double>::infinity();
  const bool is_finite = std::isfinite(now);
  const std::uint64_t times = recent_.times.exchange(0, std::memory_order_acquire);
  const double sum = recent_.sum.exchange(0, std::memory_order_relaxed);
  const double least = recent_.least.exchange(is_finite ? now : none, std::memory_order_relaxed);
  const double most = recent_.most.exchange(is_finite ? now : -none, std::memory_order_relaxed);
  if (least <= most) {
    v.recent_least = least;
    v.recent_most = most;
    if (times > 0) v.recent_mean = std::clamp(sum / static_cast<double>(times), least, most);
  }
  // A value that came meanwhile may have widened the old range.
  if (const double newer = latest_.load(std::memory_order_relaxed); !latest && std::isfinite(newer))
    recent_.widen(newer);
  return v;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
