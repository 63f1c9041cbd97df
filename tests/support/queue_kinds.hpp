// SPDX-License-Identifier: MIT
#pragma once
// The queues of the conformance suite, with the number of threads that each supports on either side.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <stop_token>
#include <utility>

#include <feedline/queue/mpmc_queue.hpp>
#include <feedline/queue/reorder_queue.hpp>
#include <feedline/queue/spsc_queue.hpp>

#include "mutex_queue.hpp"

namespace feedline::test {

/// A reorder_queue with the interface of the others: each push takes the next sequence number.
template <class T>
class ticketed_reorder_queue {
 public:
  explicit ticketed_reorder_queue(std::size_t capacity, std::stop_token stop = {})
      : queue_(capacity, std::move(stop)) {}

  queue_status push(T&& item) { return queue_.push(ticket(), std::move(item)); }

  // A timed-out push must not skip its number, so only one producer at a time waits for its slot.
  queue_status push_for(T&& item, std::chrono::nanoseconds longest) {
    const std::lock_guard lock(mutex_);
    const queue_status status = queue_.push_for(next_, std::move(item), longest);
    if (status == queue_status::success) ++next_;
    return status;
  }

  queue_status try_push(T&& item) {
    const std::lock_guard lock(mutex_);
    const queue_status status = queue_.try_push(next_, std::move(item));
    if (status == queue_status::success) ++next_;
    return status;
  }

  std::size_t push_bulk(std::span<T> items) {
    std::size_t moved = 0;
    while (moved < items.size() && push(std::move(items[moved])) == queue_status::success) ++moved;
    return moved;
  }

  std::size_t try_push_bulk(std::span<T> items) {
    std::size_t moved = 0;
    while (moved < items.size() && try_push(std::move(items[moved])) == queue_status::success) ++moved;
    return moved;
  }

  queue_status pop(T& item) { return queue_.pop(item); }

  queue_status try_pop(T& item) { return queue_.try_pop(item); }

  queue_status pop_for(T& item, std::chrono::nanoseconds longest) { return queue_.pop_for(item, longest); }

  std::size_t pop_bulk(std::span<T> items) {
    if (items.empty() || pop(items[0]) != queue_status::success) return 0;
    return 1 + try_pop_bulk(items.subspan(1));
  }

  std::size_t try_pop_bulk(std::span<T> items) {
    std::size_t moved = 0;
    while (moved < items.size() && try_pop(items[moved]) == queue_status::success) ++moved;
    return moved;
  }

  void close() { queue_.close(); }

  void stop() { queue_.stop(); }

  bool is_closed() const { return queue_.is_closed(); }

  std::size_t size_approx() const { return queue_.size_approx(); }

  std::size_t capacity() const { return queue_.capacity(); }

 private:
  std::uint64_t ticket() {
    const std::lock_guard lock(mutex_);
    return next_++;
  }

  std::mutex mutex_;
  std::uint64_t next_ = 0;
  reorder_queue<T> queue_;
};

/// An spsc_queue as on a kernel without membarrier.
template <class T>
class fenced_spsc_queue : public spsc_queue<T> {
 public:
  explicit fenced_spsc_queue(std::size_t capacity, std::stop_token stop = {})
      : spsc_queue<T>(capacity, std::move(stop), detail::asymmetric_barrier(false)) {}
};

struct spsc_kind {
  template <class T>
  using queue = spsc_queue<T>;
  static constexpr int producers = 1;
  static constexpr int consumers = 1;
};

struct fenced_spsc_kind {
  template <class T>
  using queue = fenced_spsc_queue<T>;
  static constexpr int producers = 1;
  static constexpr int consumers = 1;
};

struct mpmc_kind {
  template <class T>
  using queue = mpmc_queue<T>;
  static constexpr int producers = 3;
  static constexpr int consumers = 3;
};

struct crowded_mpmc_kind {
  template <class T>
  using queue = mpmc_queue<T>;
  static constexpr int producers = 64;
  static constexpr int consumers = 64;
};

struct reorder_kind {
  template <class T>
  using queue = ticketed_reorder_queue<T>;
  static constexpr int producers = 3;
  static constexpr int consumers = 1;
};

struct mutex_kind {
  template <class T>
  using queue = mutex_queue<T>;
  static constexpr int producers = 3;
  static constexpr int consumers = 3;
};

} // namespace feedline::test
