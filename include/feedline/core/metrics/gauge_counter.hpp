// SPDX-License-Identifier: MIT
#pragma once
// A number of a run that rises and falls, such as the fill of a queue.
#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Keeps the last value, and the range of all values since the run began and since the last report. Any thread may use it;
/// a value that is set during a report counts for the one before or after it. Values that aren't finite have no range.
class gauge_counter {
 public:
  /// The values of one counter or, added up, of one for each worker.
  struct values {
    double latest = 0;
    double least = 0, most = 0, mean = 0;
    double recent_least = 0, recent_most = 0, recent_mean = 0;

    void add(const values& other) noexcept;
  };

  void set(double value) noexcept {
    latest_.store(value, std::memory_order_relaxed);
    if (!__builtin_isfinite(value)) return;
    pass(value);
    sum_.fetch_add(value, std::memory_order_relaxed);
    times_.fetch_add(1, std::memory_order_release); // after the rest: a range with a value isn't empty
  }

  /// Widens the ranges by a value that doesn't count for the mean.
  void pass(double value) noexcept {
    all_.widen(value);
    recent_.widen(value);
  }

  /// Reads it for a report, which begins a new range. `latest`: the value now, which counts for the new range only.
  values report(std::optional<double> latest = {}) noexcept;

 private:
  struct range {
    std::atomic<double> least{std::numeric_limits<double>::infinity()};
    std::atomic<double> most{-std::numeric_limits<double>::infinity()};

    void widen(double value) noexcept {
      double seen = least.load(std::memory_order_relaxed);
      while (value < seen && !least.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
      }
      seen = most.load(std::memory_order_relaxed);
      while (value > seen && !most.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
      }
    }
  };

  std::atomic<double> latest_{0};
  std::atomic<double> sum_{0}; // of all values
  std::atomic<std::uint64_t> times_{0};
  range all_, recent_;
  double reported_sum_ = 0; // at the last report; reports take turns
  std::uint64_t reported_times_ = 0;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
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
  const bool in_range = __builtin_isfinite(now);
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
  if (const double newer = latest_.load(std::memory_order_relaxed); !latest && __builtin_isfinite(newer))
    recent_.widen(newer);
  return v;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
