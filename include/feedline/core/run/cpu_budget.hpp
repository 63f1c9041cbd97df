// SPDX-License-Identifier: MIT
#pragma once
// Keeps the threads of a run within a share of the processors.
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stop_token>

#include <feedline/core/metrics/thread_counters.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A token bucket: time adds processor time to it, and the threads pay with what they used.
class cpu_budget {
 public:
  /// `processors`: how many the threads may use together, more than 0; or a part of one.
  cpu_budget(double processors, std::stop_token stop);

  /// Pays for the processor time that the calling thread used since its last call. Waits while the bucket is overdrawn.
  void pay(thread_counters& thread);

 private:
  static constexpr double most_saved = 20e6; // ns, for each processor

  const double processors_;
  const std::stop_token stop_;
  std::mutex mutex_; // guards the members below
  std::condition_variable_any stopped_;
  double saved_ = 0; // ns of processor time; negative: overdrawn
  std::uint64_t filled_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE_RUN)
#include <algorithm>
#include <chrono>
#include <utility>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE cpu_budget::cpu_budget(double processors, std::stop_token stop)
    : processors_(processors), stop_(std::move(stop)), filled_(now_ns()) {}

FEEDLINE_INLINE void cpu_budget::pay(thread_counters& thread) {
  constexpr std::uint64_t least = 500'000; // ns: whoever uses little isn't stopped
  constexpr double longest_wait = 3'600e9; // ns; then it looks again
  const std::uint64_t used = thread_ns();
  if (used - thread.paid_ns < least) return;
  std::unique_lock lock(mutex_);
  const std::uint64_t now = now_ns();
  saved_ += static_cast<double>(now - std::exchange(filled_, now)) * processors_;
  saved_ = std::min(saved_, most_saved * processors_) -
           static_cast<double>(used - std::exchange(thread.paid_ns, used));
  if (saved_ >= 0) return;
  const wait_timer timer(thread, wait_kind::throttled);
  const auto longest =
      std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(-saved_ / processors_, longest_wait)));
  stopped_.wait_for(lock, stop_, longest, [] { return false; });
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
