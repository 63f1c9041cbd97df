// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/metrics/gauge_counter.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void gauge_counter::values::add(const values& other) noexcept {
  latest += other.latest;
  sum += other.sum;
  times += other.times;
  parts += other.parts;
  least += other.least;
  most += other.most;
  recent_least += other.recent_least;
  recent_most += other.recent_most;
}

FEEDLINE_INLINE gauge_counter::values gauge_counter::report() noexcept {
  values v;
  v.times = times_.load(std::memory_order_relaxed);
  if (v.times == 0) return v;
  v.latest = latest_.load(std::memory_order_relaxed);
  v.sum = sum_.load(std::memory_order_relaxed);
  v.parts = 1;
  v.least = all_.least.load(std::memory_order_relaxed);
  v.most = all_.most.load(std::memory_order_relaxed);
  v.recent_least = recent_.least.exchange(v.latest, std::memory_order_relaxed);
  v.recent_most = recent_.most.exchange(v.latest, std::memory_order_relaxed);
  return v;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
