// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/run/cpu_budget.hpp>

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
