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
  /// Programs without a watch, which gives the function, needn't compile reports.
  using report_function = feedline::metrics (*)(watched_run& watch, delivery& of);

  explicit watched_run(report_function f) : report(f) {}

  const report_function report;
  std::shared_ptr<run_link> link; // null: of a loader without a run
  metrics_collector collector;
  memory_plan memory;
  std::mutex mutex;       // guards `last`
  feedline::metrics last; // of a run that has ended
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE_RUN)
#include <algorithm>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void run_link::add(const std::shared_ptr<watched_run>& watch) {
  const std::lock_guard lock(mutex_);
  std::erase_if(watches_, [](const std::weak_ptr<watched_run>& w) { return w.expired(); });
  watches_.push_back(watch);
}

FEEDLINE_INLINE void run_link::end() noexcept {
  const std::lock_guard lock(mutex_);
  for (const std::weak_ptr<watched_run>& weak : watches_) {
    const std::shared_ptr<watched_run> watch = weak.lock();
    if (!watch) continue;
    try {
      feedline::metrics last = watch->report(*watch, *of_);
      const std::lock_guard last_lock(watch->mutex);
      watch->last = std::move(last);
    } catch (...) { // there is no memory for them
    }
  }
  of_ = nullptr;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
