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

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/stage_outcomes.ipp>
#endif
