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

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/cpu_budget.ipp>
#endif
