// SPDX-License-Identifier: MIT
#pragma once
// Connects a run with those who watch it, and may outlive it.
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <feedline/core/memory_plan.hpp>
#include <feedline/core/metrics.hpp>
#include <feedline/core/run/delivery.hpp>
#include <feedline/core/run/metrics_collector.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

struct watched_run;

/// The run may end only between two uses by others.
class run_link {
 public:
  explicit run_link(delivery& of) : of_(&of) {}

  /// Calls `f` with the run. False: it has ended.
  template <class F>
  bool with_run(const F& f) {
    const std::lock_guard lock(mutex_);
    if (of_) f(*of_);
    return of_ != nullptr;
  }

  /// `watch` receives the last metrics at the end of the run.
  void add(const std::shared_ptr<watched_run>& watch);

  void end() noexcept;

 private:
  std::mutex mutex_;
  delivery* of_; // null: it has ended
  std::vector<std::weak_ptr<watched_run>> watches_;
};

/// What a watch has seen.
struct watched_run {
  feedline::metrics report(delivery& of) { return collector.report(of.run, of.consumer, *of.failures); }

  std::shared_ptr<run_link> link; // null: of a loader without a run
  metrics_collector collector;
  memory_plan memory;
  std::mutex mutex;       // guards `last`
  feedline::metrics last; // of a run that has ended
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/run_link.ipp>
#endif
