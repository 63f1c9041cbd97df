// SPDX-License-Identifier: MIT
#pragma once
// How samples fare in the stages of a run, for its source.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include <feedline/core/epoch.hpp>
#include <feedline/core/metrics/thread_counters.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class pipeline_run;
struct segment_record;

/// Reads what the threads of a run count for its metrics.
class stage_outcomes final : public sample_outcomes {
 public:
  explicit stage_outcomes(const pipeline_run& run) noexcept : run_(run) {}

  FEEDLINE_INLINE std::uint64_t failed_in_row() override;

 private:
  struct seen {
    std::uint64_t passed = 0; // calls that didn't fail
    std::uint64_t given = 0;  // which says more of a stage that has several failures in a call
    std::uint64_t failures = 0;

    std::uint64_t failed_since(std::uint64_t passed_now, std::uint64_t given_now,
                               std::uint64_t failures_now) {
      if (passed_now > passed || given_now > given)
        *this = {std::max(passed, passed_now), std::max(given, given_now), failures_now};
      return failures_now - failures;
    }
  };

  static std::uint64_t sum(const segment_record& record, std::size_t stage,
                           std::atomic<std::uint64_t> stage_counters::*counter);

  const pipeline_run& run_;
  std::mutex mutex_;
  std::vector<seen> seen_; // of each stage, when it last let something through
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE_RUN)
#include <feedline/core/run/pipeline_run.hpp>
#include <feedline/core/transport/channel.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::uint64_t stage_outcomes::failed_in_row() {
  const std::lock_guard lock(mutex_);
  seen_.resize(run_.places().size());
  std::uint64_t most = 0;
  for (std::size_t s = 0; s < run_.segments().size(); ++s) {
    const segment_record& record = run_.segments()[s];
    for (std::size_t i = 0; i < record.stages; ++i) {
      const std::size_t place = record.first_place + i;
      if (place == 0) continue; // the source itself
      // In this order: threads count a failure at once, and what they received when they are done with it.
      const std::uint64_t received = sum(record, i, &stage_counters::received);
      const std::uint64_t given = i + 1 < record.stages
                                      ? sum(record, i + 1, &stage_counters::received)
                                      : run_.queues()[s]->counters().put.load(std::memory_order_relaxed);
      const std::uint64_t failures = sum(record, i, &stage_counters::failures);
      most =
          std::max(most, seen_[place].failed_since(received - std::min(received, failures), given, failures));
    }
  }
  return most;
}

FEEDLINE_INLINE std::uint64_t stage_outcomes::sum(const segment_record& record, std::size_t stage,
                                                  std::atomic<std::uint64_t> stage_counters::*counter) {
  std::uint64_t all = 0;
  for (const auto& worker : record.workers)
    all += (worker->stages[stage].*counter).load(std::memory_order_relaxed);
  return all;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
