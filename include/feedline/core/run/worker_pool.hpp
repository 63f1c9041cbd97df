// SPDX-License-Identifier: MIT
#pragma once
// Workers whose number follows the work: as many are active as increase the throughput, the others are parked.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <vector>

#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/plan/segments.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Measurements of a stage's workers over a span of time.
struct work_seen {
  double seconds = 0;
  double busy = 0;         ///< seconds of all workers together
  double taker_waited = 0; ///< share of the time in which the threads downstream and the consumer waited
  double items = 0;        ///< items processed
};

/// Decides how many workers a stage should have, from repeated measurements. Uses no threads and no clock.
///
/// The number grows, to 1.25 to 2 times at once, while all workers are busy and the threads downstream still
/// wait. If all workers are busy after growth, but it brought less than half of its share, they compete for
/// another resource, such as processors or a disk. The number then falls to as many as would do the same work
/// without competing, and doesn't grow for a while, each time longer. By the utilization law the number that is
/// needed is throughput x service time, which is the mean number of busy workers: the number shrinks to that
/// when it exceeds it by more than one twice in a row. (P. Denning, J. Buzen, "The Operational Analysis of
/// Queueing Network Models", 1978.)
class worker_policy {
 public:
  worker_policy(worker_range range, std::size_t count) : range_(range), count_(count) {}

  std::size_t count() const noexcept { return count_; }

  void see(const work_seen& seen);

 private:
  void grow(double taker_waited, double rate);

  static constexpr std::size_t first_pause = 8;

  worker_range range_;
  std::size_t count_;
  std::size_t grown_from_ = 0; // the number before it just grew; 0: it didn't grow
  double rate_before_ = 0;
  double rate_of_one_ = 0; // items per second of a worker that doesn't compete
  std::size_t pause_ = 0;  // measurements until it may grow again
  std::size_t next_pause_ = first_pause;
  std::size_t spare_ = 0; // the lower number that was enough last time; 0: none
};

/// The share of their time in which some threads wait for input, between two measurements.
class waiting_share {
 public:
  explicit waiting_share(std::vector<const thread_counters*> threads);

  double waited(std::uint64_t now);

 private:
  std::vector<const thread_counters*> threads_;
  std::uint64_t starved_ = 0; // ns, up to the last measurement
  std::uint64_t alive_ = 0;
};

/// The workers of one segment. From time to time one of them measures all and adjusts their number.
class worker_pool {
 public:
  using clock = std::uint64_t (*)() noexcept; // in ns

  /// `members`, `takers` (the threads downstream) and `consumer` must outlive the pool. It starts with as many
  /// workers as there are processors. Tests pass their own clock.
  worker_pool(worker_range range, std::size_t processors,
              const std::vector<std::shared_ptr<thread_counters>>& members,
              std::vector<const thread_counters*> takers, const thread_counters& consumer,
              std::stop_token stop, clock now = now_ns);

  /// How many workers are active.
  std::size_t active() const noexcept { return active_.load(std::memory_order_relaxed); }

  /// Parks a worker as long as it isn't needed.
  void wait_turn(thread_counters& thread) {
    if (thread.number >= active()) park(thread);
  }

  /// Called when a worker has processed a packet of this many items.
  void worked(std::size_t items) {
    items_.fetch_add(items, std::memory_order_relaxed);
    if (packets_.fetch_add(1, std::memory_order_relaxed) + 1 >= std::max<std::size_t>(10, 2 * active()))
      look();
  }

  /// Called when there is no more work: unparks all workers.
  void end();

 private:
  static constexpr std::uint64_t shortest_span = 50'000'000; // ns

  void park(thread_counters& thread);

  // Measures, unless the last time was a moment ago.
  void look();

  void adjust(std::uint64_t now);

  clock now_;
  worker_policy policy_;
  const std::vector<std::shared_ptr<thread_counters>>& members_;
  waiting_share takers_, consumer_;
  std::stop_token stop_;
  std::atomic<std::size_t> active_;
  std::atomic<std::uint64_t> packets_{0}; // since the last measurement
  std::atomic<std::uint64_t> items_{0};
  std::atomic<std::uint64_t> since_; // time of the last measurement
  std::mutex mutex_;                 // guards the members below and the wake-ups
  std::condition_variable_any changed_;
  std::uint64_t busy_ = 0; // ns, up to the last measurement
  bool ending_ = false;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE_RUN)
#include <cmath>
#include <utility>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void worker_policy::see(const work_seen& seen) {
  const double busy = seen.busy / seen.seconds, rate = seen.items / seen.seconds;
  const double idle = static_cast<double>(count_) - busy;
  // A small reserve shows whether more workers are wanted.
  const double spare = std::clamp(0.02 * static_cast<double>(count_), 0.5, 1.0);
  const bool all_busy = idle < std::min(0.1 * static_cast<double>(count_), spare);
  const std::size_t before = std::exchange(grown_from_, 0);
  if (all_busy) rate_of_one_ = std::max(rate_of_one_, rate / static_cast<double>(count_));
  const auto needed = static_cast<std::size_t>(std::ceil(busy + spare));
  if (before != 0) {
    const double growth = static_cast<double>(count_) / static_cast<double>(before) - 1;
    const bool was_worth_it = rate / rate_before_ - 1 >= growth / 2;
    const bool can_be_judged = growth >= 0.25; // rates are noisy
    if (!all_busy || (can_be_judged && !was_worth_it)) {
      const auto worth = static_cast<std::size_t>(std::ceil(rate / rate_of_one_ - 0.1));
      if (all_busy) count_ = std::clamp(worth, std::max(range_.least, before - before / 4), count_);
      else count_ = std::clamp(needed, before, count_);
      if (can_be_judged && was_worth_it) next_pause_ = first_pause;
      pause_ = next_pause_;
      next_pause_ = std::min<std::size_t>(next_pause_ * 2, 256);
      return;
    }
    if (can_be_judged) next_pause_ = first_pause;
  }
  pause_ -= pause_ > 0;
  if (all_busy && seen.taker_waited > 0.05 && pause_ == 0) return grow(seen.taker_waited, rate);
  const std::size_t wanted = std::max(range_.least, needed);
  if (idle < 1.8 || wanted >= count_) {
    spare_ = 0;
  } else if (spare_ == 0) {
    spare_ = wanted;
  } else {
    count_ = std::max(wanted, std::exchange(spare_, 0));
  }
}

FEEDLINE_INLINE void worker_policy::grow(double taker_waited, double rate) {
  spare_ = 0;
  if (count_ == range_.most) return;
  const double enough = std::ceil(static_cast<double>(count_) / std::clamp(1 - taker_waited, 0.5, 0.8));
  grown_from_ = count_;
  rate_before_ = rate;
  count_ = std::min(static_cast<std::size_t>(enough), range_.most);
}

FEEDLINE_INLINE waiting_share::waiting_share(std::vector<const thread_counters*> threads)
    : threads_(std::move(threads)) {}

FEEDLINE_INLINE double waiting_share::waited(std::uint64_t now) {
  std::uint64_t starved = 0, alive = 0; // without the time parked
  for (const thread_counters* a : threads_) {
    const worker_times times = read_times(*a, now);
    starved += times.starved;
    alive += times.alive;
  }
  const std::uint64_t waited = starved - std::min(starved, starved_);
  const std::uint64_t passed = alive - std::min(alive, alive_);
  starved_ = starved;
  alive_ = alive;
  return static_cast<double>(waited) / static_cast<double>(std::max<std::uint64_t>(passed, 1));
}

FEEDLINE_INLINE worker_pool::worker_pool(worker_range range, std::size_t processors,
                                         const std::vector<std::shared_ptr<thread_counters>>& members,
                                         std::vector<const thread_counters*> takers,
                                         const thread_counters& consumer, std::stop_token stop, clock now)
    : now_(now),
      policy_(range, std::clamp(processors, range.least, range.most)),
      members_(members),
      takers_(std::move(takers)),
      consumer_({&consumer}),
      stop_(std::move(stop)),
      active_(policy_.count()),
      since_(now()) {}

FEEDLINE_INLINE void worker_pool::park(thread_counters& thread) {
  const wait_timer timer(thread, wait_kind::parked);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, stop_, [&] { return ending_ || thread.number < active(); });
}

FEEDLINE_INLINE void worker_pool::look() {
  const std::uint64_t now = now_();
  if (now - since_.load(std::memory_order_relaxed) < shortest_span) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock && !ending_ && now - since_.load(std::memory_order_relaxed) >= shortest_span) adjust(now);
}

FEEDLINE_INLINE void worker_pool::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
}

FEEDLINE_INLINE void worker_pool::adjust(std::uint64_t now) {
  const std::uint64_t began = since_.exchange(now, std::memory_order_relaxed);
  packets_.store(0, std::memory_order_relaxed);
  work_seen seen;
  seen.seconds = static_cast<double>(now - began) * 1e-9;
  seen.items = static_cast<double>(items_.exchange(0, std::memory_order_relaxed));
  std::uint64_t busy = 0;
  for (const auto& a : members_) busy += read_times(*a, now).busy();
  seen.busy = static_cast<double>(busy - std::min(busy, busy_)) * 1e-9;
  busy_ = busy;
  // The threads downstream may have little work and wait although the consumer receives enough.
  seen.taker_waited = std::min(takers_.waited(now), consumer_.waited(now));
  policy_.see(seen);
  const std::size_t before = active_.exchange(policy_.count(), std::memory_order_relaxed);
  if (policy_.count() > before) changed_.notify_all();
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
