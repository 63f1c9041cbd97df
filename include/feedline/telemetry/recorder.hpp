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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_TELEMETRY)
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <utility>

#include <unistd.h>

#include <feedline/core/run_watch.hpp>

namespace feedline::inline FEEDLINE_ABI {

class recorder::thread {
 public:
  thread(const run_handle& loader, const recorder_options& options)
      : watch_(loader),
        options_(options),
        most_(static_cast<std::size_t>(options.last / options.every)),
        began_(clock::now()),
        thread_([this](const std::stop_token& stop) { run(stop); }) {}

  void stop() {
    thread_.request_stop();
    const std::lock_guard lock(joining_);
    if (thread_.joinable()) thread_.join();
  }

  std::vector<recorded_interval> intervals() const {
    const std::lock_guard lock(mutex_);
    return {intervals_.begin(), intervals_.end()};
  }

  interval_metrics total() const {
    const std::lock_guard lock(mutex_);
    return total_;
  }

  memory_plan memory() const { return watch_.memory(); }

  /// Whether this process is a forked child of the one that began the recording.
  bool is_inherited() const noexcept { return ::getpid() != process_; }

 private:
  using clock = std::chrono::steady_clock;

  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    for (clock::time_point next = began_ + options_.every;; next += options_.every) {
      const bool is_last =
          stopped_.wait_until(lock, stop, next, [&] { return stop.stop_requested(); }) || watch_.has_ended();
      lock.unlock();
      try {
        metrics now = watch_.metrics(); // without the lock: the loader's end waits for it
        lock.lock();
        add(std::move(now));
      } catch (const std::bad_alloc&) { // this interval is missing, or the next covers it too
        if (!lock.owns_lock()) lock.lock();
      }
      if (is_last) return;
      if (clock::now() > next + options_.every) next = clock::now(); // the process was suspended
    }
  }

  void add(metrics now) {
    if (now.recent.seconds <= 0) return;
    total_ = std::move(now.total);
    intervals_.push_back(
        {std::chrono::duration<double>(clock::now() - began_).count(), std::move(now.recent)});
    if (intervals_.size() > most_) intervals_.pop_front();
  }

  const ::pid_t process_ = ::getpid();
  const run_watch watch_;
  const recorder_options options_;
  const std::size_t most_;
  const clock::time_point began_;
  mutable std::mutex mutex_; // guards the members below
  std::condition_variable_any stopped_;
  std::deque<recorded_interval> intervals_;
  interval_metrics total_;
  std::mutex joining_;
  std::jthread thread_; // last: it uses the others
};

FEEDLINE_INLINE recorder::recorder(const run_handle& loader, const recorder_options& options) {
  constexpr std::chrono::hours most(24 * 365 * 100);
  recorder_options kept = options;
  kept.last = std::min<std::chrono::seconds>(options.last, most);
  if (options.every < std::chrono::milliseconds(1) || options.every > most || kept.last < options.every)
    throw std::invalid_argument("feedline::recorder: an interval must be at least 1 ms long, and no longer "
                                "than the time that is kept");
  thread_ = std::make_unique<thread>(loader, kept);
}

FEEDLINE_INLINE recorder::~recorder() {
  if (thread_->is_inherited()) static_cast<void>(thread_.release()); // its thread doesn't exist here
}

FEEDLINE_INLINE void recorder::stop() {
  if (!thread_->is_inherited()) thread_->stop();
}

FEEDLINE_INLINE std::vector<recorded_interval> recorder::intervals() const { return thread_->intervals(); }

FEEDLINE_INLINE interval_metrics recorder::total() const { return thread_->total(); }

FEEDLINE_INLINE memory_plan recorder::memory() const { return thread_->memory(); }

} // namespace feedline::inline FEEDLINE_ABI
#endif
