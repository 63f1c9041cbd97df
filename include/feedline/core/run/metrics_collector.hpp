// SPDX-License-Identifier: MIT
#pragma once
// Computes metrics from the counters of a run's threads.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <feedline/core/failure.hpp>
#include <feedline/core/metrics.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/run/pipeline_run.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class failure_list;

/// All counters of a run at one moment.
struct counter_values {
  struct stage {
    std::uint64_t received = 0, emitted = 0, failures = 0, capacity = 0, timed = 0, timed_ns = 0;
    gauge_counter::values held;
    stage_counters::histogram::counts times{};
    std::vector<user_numbers::number> numbers;

    void add(stage_counters& c);
  };

  struct queue {
    std::uint64_t put = 0, taken = 0, dropped = 0;
    gauge_counter::values fill;
  };

  std::uint64_t time = 0;
  std::vector<stage> stages;
  std::vector<std::vector<worker_times>> segments;
  std::vector<queue> queues;
  std::uint64_t items = 0, waited = 0, queued_ns = 0;
  consumer_counters::histogram::counts queued{}, waits{};
  std::vector<failure_count> failures;
};

counter_values read_counters(const pipeline_run& run, const consumer_counters& consumer,
                             const failure_list& failures);

inline double seconds(std::uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

// A counter that is being written may yield an older value the second time.
inline std::uint64_t since(std::uint64_t now, std::uint64_t before) {
  return now > before ? now - before : 0;
}

stage_times times_between(const counter_values::stage& a, const counter_values::stage& b);

/// A gauge since the run began (`whole`), or since the last report.
gauge gauge_of(const gauge_counter::values& v, bool whole);

std::vector<user_metric> numbers_between(const std::vector<user_numbers::number>& before,
                                         const std::vector<user_numbers::number>& now, bool whole);

/// The counts of a histogram in powers of two.
std::vector<time_bucket> buckets_of(const consumer_counters::histogram::counts& counts);

/// Shares out what the threads of a segment worked among its stages, by the times that they take. Of a source those aren't
/// known: what the others didn't take is its part.
void share_out_busy(const segment_metrics& segment, std::size_t number, bool has_source,
                    std::span<stage_metrics> stages);

interval_metrics interval_between(const pipeline_run& run, const counter_values& before,
                                  const counter_values& now, bool whole);

/// The counters of a run at its beginning.
counter_values beginning_of(const counter_values& now, std::uint64_t time);

/// Remembers the last report, so that the next one covers the time since then. The range of a gauge is that since the
/// last report of any collector.
class metrics_collector {
 public:
  metrics_collector();
  ~metrics_collector();

  metrics report(const pipeline_run& run, const consumer_counters& consumer, const failure_list& failures);

 private:
  std::unique_ptr<const counter_values> previous_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/metrics_collector.ipp>
#endif
