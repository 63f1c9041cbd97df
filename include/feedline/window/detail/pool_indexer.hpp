// SPDX-License-Identifier: MIT
#pragma once
// Threads that find sources of chunks, index them and add them to a window.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <mutex>
#include <thread>

#include <feedline/core/contract.hpp>
#include <feedline/source/detail/sub_source.hpp>
#include <feedline/window/detail/pool_window.hpp>
#include <feedline/window/pool_options.hpp>
#include <feedline/window/stream_shuffler.hpp>
#include <feedline/window/watch_directory.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// `Make` turns an item of `Upstream` into a source of chunks.
template <source Upstream, class Make>
class pool_indexer {
 public:
  using item = source_item_t<Upstream>;
  using chunks = std::remove_cvref_t<std::invoke_result_t<const Make&, item&&>>;
  using window_type = pool_window<chunks>;

  /// Starts the threads. The objects referred to must outlive it.
  pool_indexer(const Upstream& upstream, const Make& make, const pool_options& options, const epoch& e,
               window_type& window)
      : options_(options), make_(make), endless_(e.endless), window_(window) {
    epoch own = without_limits(e);
    own.stop = stop_.get_token();
    failures_.reserve(max_failures);
    try {
      threads_.emplace_back([this, upstream = Upstream(upstream), own]() mutable { feed(upstream, own); });
      for (std::size_t i = 0; i < options_.index_threads; ++i) threads_.emplace_back([this] { index(); });
    } catch (...) {
      join();
      throw;
    }
    on_stop_.emplace(e.stop, stopping{&stop_});
  }

  pool_indexer(const pool_indexer&) = delete;

  ~pool_indexer() { join(); }

  /// Locks the window and the state that the functions below read.
  std::unique_lock<std::mutex> lock() const { return std::unique_lock(mutex_); }

  bool is_stopped() const noexcept { return stop_.stop_requested(); }

  /// Waits for a condition that its threads change. False: it was stopped.
  template <class Condition>
  bool wait(std::unique_lock<std::mutex>& lock, Condition condition) {
    return changed_.wait(lock, stop_.get_token(), condition);
  }

  /// The same with a time limit: false also when the time is over.
  template <class Time, class Condition>
  bool wait_until(std::unique_lock<std::mutex>& lock, Time time, Condition condition) {
    return changed_.wait_until(lock, stop_.get_token(), time, condition);
  }

  /// Whether the window holds all chunks of the start that fit.
  bool has_old() const noexcept { return has_old_; }

  /// Whether the source has ended and all of it is indexed.
  bool has_all() const noexcept { return is_fed_ && has_old_ && new_.empty() && added_ == taken_; }

  bool has_failure() const noexcept { return !failures_.empty(); }

  std::exception_ptr take_failure() {
    std::exception_ptr failure = std::move(failures_.front());
    failures_.erase(failures_.begin());
    changed_.notify_all(); // there is room for another failure
    return failure;
  }

  /// The working time of all index threads together.
  std::chrono::duration<double> time() const noexcept { return indexing_; }

 private:
  static constexpr std::size_t max_waiting = 256; // sources that are found, but not indexed
  static constexpr std::size_t max_failures = 64; // not taken yet

  struct stopping {
    std::stop_source* stop;

    void operator()() const noexcept { stop->request_stop(); }
  };

  struct job {
    item what;
    std::uint64_t number; // in the order in which jobs are taken
    bool is_old;          // a source of the start
  };

  struct outcome {
    std::shared_ptr<const chunks> source;
    std::uint64_t count = 0;
    std::exception_ptr failure{};
  };

  void join() noexcept {
    on_stop_.reset();
    stop_.request_stop();
    for (std::thread& t : threads_) t.join();
  }

  // --- Finding sources

  // Reads the upstream source to its end.
  void feed(Upstream& upstream, const epoch& e) {
    const std::stop_token stop = stop_.get_token();
    bool is_scanning = true;
    try {
      start_source(upstream, e);
    } catch (...) {
      add_failure(std::current_exception());
      return end_feed(is_scanning);
    }
    std::vector<item> old;
    while (!stop.stop_requested()) {
      std::exception_ptr failure; // moved on after the handler, so that this thread keeps no reference to it
      try {
        // Items that arrive without a wait belong to the start.
        if constexpr (live_source<Upstream> && says_when_ready<Upstream>)
          if (is_scanning && endless_ && !upstream.ready()) end_scan(is_scanning, old);
        std::optional<item> found = upstream.next();
        if (!found) break;
        if constexpr (std::is_same_v<item, watched_file>) {
          if (is_scanning && found->what != watched_file::kind::at_start) end_scan(is_scanning, old);
          if (!found->is_file()) continue;
        }
        if (is_scanning) old.push_back(std::move(*found));
        else if (!add_new(std::move(*found))) return;
      } catch (...) {
        failure = std::current_exception();
      }
      if (failure && !add_failure(std::move(failure))) return;
    }
    try {
      if (is_scanning) end_scan(is_scanning, old);
    } catch (...) {
      add_failure(std::current_exception());
    }
    end_feed(is_scanning);
  }

  void end_scan(bool& is_scanning, std::vector<item>& old) {
    if (options_.newest_first) // std::reverse() would need assignable items
      old = std::vector<item>(std::make_move_iterator(old.rbegin()), std::make_move_iterator(old.rend()));
    is_scanning = false;
    const std::lock_guard lock(mutex_);
    old_ = std::move(old);
    if (old_.empty()) has_old_ = true;
    changed_.notify_all();
  }

  void end_feed(bool is_scanning) {
    const std::lock_guard lock(mutex_);
    if (is_scanning) has_old_ = true;
    is_fed_ = true;
    changed_.notify_all();
  }

  bool add_new(item&& what) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop_.get_token(), [this] { return new_.size() < max_waiting; })) return false;
    new_.push_back(std::move(what));
    changed_.notify_all();
    return true;
  }

  /// False: it was stopped.
  bool add_failure(std::exception_ptr failure) {
    std::unique_lock lock(mutex_);
    return add_failure(lock, std::move(failure));
  }

  bool add_failure(std::unique_lock<std::mutex>& lock, std::exception_ptr failure) {
    if (!changed_.wait(lock, stop_.get_token(), [this] { return failures_.size() < max_failures; }))
      return false;
    failures_.push_back(std::move(failure));
    changed_.notify_all();
    return true;
  }

  // --- Indexing

  // Takes the sources of the start, the newest first, then later ones. The window receives them in that order, whichever
  // thread finishes first.
  void index() {
    std::unique_lock lock(mutex_);
    for (;;) {
      const bool goes_on = changed_.wait(lock, stop_.get_token(), [this] { return has_job() || has_all(); });
      if (!goes_on || !has_job()) return;
      job j = take_job();
      lock.unlock();
      const auto begin = std::chrono::steady_clock::now();
      outcome found = look_into(std::move(j.what));
      const auto time = std::chrono::steady_clock::now() - begin;
      lock.lock();
      indexing_ += time;
      if (!changed_.wait(lock, stop_.get_token(), [&] { return added_ == j.number; })) return;
      try {
        if (!add(lock, j, found)) return;
      } catch (...) {
        if (!add_failure(lock, std::current_exception())) return;
      }
      ++added_;
      if (!has_old_ && (window_.is_full() || (old_.empty() && added_ == taken_))) {
        has_old_ = true;
        old_.clear();
      }
      changed_.notify_all();
    }
  }

  bool has_job() const noexcept { return has_old_ ? !new_.empty() : !old_.empty(); }

  job take_job() {
    if (has_old_) {
      job j{std::move(new_.front()), taken_++, false};
      new_.pop_front();
      changed_.notify_all(); // there is room
      return j;
    }
    job j{std::move(old_.back()), taken_++, true};
    old_.pop_back();
    return j;
  }

  outcome look_into(item&& what) const noexcept {
    constexpr std::uint64_t max_count = stream_shuffler::max_window;
    outcome o;
    try {
      auto source = std::make_shared<chunks>(make_(std::move(what)));
      if constexpr (requires { source->index(stop_.get_token()); }) source->index(stop_.get_token());
      else if constexpr (requires { source->index(); }) source->index();
      const std::uint64_t count = source->size();
      if (count > max_count)
        throw std::length_error("feedline::sliding_window_pool: a source has " + std::to_string(count) +
                                " chunks: at most 2^32 are possible");
      if constexpr (requires { std::string(source->problem()); })
        if (std::string problem(source->problem()); !problem.empty())
          o.failure = std::make_exception_ptr(std::runtime_error(std::move(problem)));
      o.source = std::move(source);
      o.count = count;
    } catch (...) {
      o.failure = std::current_exception();
    }
    return o;
  }

  // False: it was stopped.
  bool add(std::unique_lock<std::mutex>& lock, const job& j, outcome& found) {
    if (j.is_old && has_old_) return true; // the window was full before
    if (found.failure && !add_failure(lock, std::move(found.failure))) return false;
    if (found.count > 0) window_.add(std::move(found.source), found.count, j.is_old);
    return true;
  }

  const pool_options& options_;
  const Make& make_;
  const bool endless_;
  std::stop_source stop_;

  mutable std::mutex mutex_; // protects the members below and the window
  std::condition_variable_any changed_;
  window_type& window_;

  std::vector<item> old_;                    // sources of the start that aren't indexed yet, the newest last
  std::deque<item> new_;                     // later sources that aren't indexed yet
  bool has_old_ = false;                     // the window holds all chunks of the start that fit
  bool is_fed_ = false;                      // the upstream source has ended
  std::uint64_t taken_ = 0;                  // jobs started
  std::uint64_t added_ = 0;                  // jobs finished
  std::vector<std::exception_ptr> failures_; // has room for all: it is used where there may be no memory
  std::chrono::steady_clock::duration indexing_{0};

  std::vector<std::thread> threads_;
  std::optional<std::stop_callback<stopping>> on_stop_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
