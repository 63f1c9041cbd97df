// SPDX-License-Identifier: MIT
#pragma once
// The history of a run: its metrics in equal intervals of time.
#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include <feedline/core/loader.hpp>
#include <feedline/core/memory_plan.hpp>
#include <feedline/core/metrics.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of a recorder.
struct recorder_options {
  std::chrono::milliseconds every{100}; ///< the length of an interval, at least 1 ms
  std::chrono::seconds last{600};       ///< how much is kept, about 60 MB: older intervals are dropped
};

/// What happened in one interval of time.
struct recorded_interval {
  double end = 0;           ///< seconds since the recorder began, by a clock that doesn't jump
  interval_metrics metrics; ///< its length is `metrics.seconds`: longer if the process was suspended
};

/// Records the metrics of a loader in a thread of its own. It may outlive the loader: then it has recorded up to that end. An
/// interval takes some 10 kB.
class recorder {
 public:
  /// Begins at once. Throws std::invalid_argument if an interval is shorter than 1 ms, or longer than what is kept.
  explicit recorder(const run_handle& loader, const recorder_options& options = {});

  recorder(recorder&&) = delete;

  /// Ends the recording.
  ~recorder();

  /// Records what happened since the last interval, and no more after that.
  void stop();

  /// The intervals from the oldest that is kept, for any thread.
  std::vector<recorded_interval> intervals() const;

  /// Everything since the run began, up to the last interval.
  interval_metrics total() const;

  /// The memory plan of the run.
  memory_plan memory() const;

 private:
  class thread;

  std::unique_ptr<thread> thread_;
};

} // namespace feedline::inline FEEDLINE_ABI

#ifndef FEEDLINE_COMPILED
#include <feedline/telemetry/recorder.ipp>
#endif
