// SPDX-License-Identifier: MIT
#pragma once
// The simplest queue with the promises of feedline's queues: the reference in the conformance suite and the
// benchmarks.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <utility>

#include <feedline/queue/queue_status.hpp>

namespace feedline::test {

template <class T>
class mutex_queue {
 public:
  using value_type = T;

  explicit mutex_queue(std::size_t capacity, std::stop_token stop = {})
      : capacity_(capacity), on_stop_(std::move(stop), stopper{this}) {
    if (capacity == 0) throw std::invalid_argument("capacity 0");
  }

  queue_status push(T&& item) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return closed_ || items_.size() < capacity_; });
    return put(item);
  }

  queue_status push(const T& item) { return push(T(item)); }

  queue_status try_push(T&& item) {
    const std::lock_guard lock(mutex_);
    return put(item);
  }

  queue_status push_for(T&& item, std::chrono::nanoseconds longest) {
    std::unique_lock lock(mutex_);
    room_.wait_for(lock, longest, [&] { return closed_ || items_.size() < capacity_; });
    return put(item);
  }

  std::size_t push_bulk(std::span<T> items) {
    std::size_t moved = 0;
    while (moved < items.size() && push(std::move(items[moved])) == queue_status::success) ++moved;
    return moved;
  }

  std::size_t try_push_bulk(std::span<T> items) {
    const std::lock_guard lock(mutex_);
    std::size_t moved = 0;
    while (moved < items.size() && put(items[moved]) == queue_status::success) ++moved;
    return moved;
  }

  queue_status pop(T& item) {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [&] { return closed_ || !items_.empty(); });
    return take(item);
  }

  queue_status try_pop(T& item) {
    const std::lock_guard lock(mutex_);
    return take(item);
  }

  queue_status pop_for(T& item, std::chrono::nanoseconds longest) {
    std::unique_lock lock(mutex_);
    filled_.wait_for(lock, longest, [&] { return closed_ || !items_.empty(); });
    return take(item);
  }

  std::size_t pop_bulk(std::span<T> items) {
    if (items.empty()) return 0;
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [&] { return closed_ || !items_.empty(); });
    return take_bulk(items);
  }

  std::size_t try_pop_bulk(std::span<T> items) {
    const std::lock_guard lock(mutex_);
    return take_bulk(items);
  }

  void close() { end(false); }

  void stop() { end(true); }

  bool is_closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

  std::size_t size_approx() const {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }

  std::size_t capacity() const { return capacity_; }

 private:
  struct stopper {
    mutex_queue* queue;

    void operator()() const noexcept { queue->stop(); }
  };

  queue_status put(T& item) {
    if (closed_) return queue_status::closed;
    if (items_.size() == capacity_) return queue_status::full;
    items_.push_back(std::move(item));
    filled_.notify_one();
    return queue_status::success;
  }

  queue_status take(T& item) {
    if (stopped_ || (closed_ && items_.empty())) return queue_status::closed;
    if (items_.empty()) return queue_status::empty;
    item = std::move(items_.front());
    items_.pop_front();
    room_.notify_one();
    return queue_status::success;
  }

  std::size_t take_bulk(std::span<T> items) {
    std::size_t moved = 0;
    while (moved < items.size() && take(items[moved]) == queue_status::success) ++moved;
    return moved;
  }

  void end(bool stopped) {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    stopped_ = stopped_ || stopped;
    room_.notify_all();
    filled_.notify_all();
  }

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable room_;
  std::condition_variable filled_;
  std::deque<T> items_;
  bool closed_ = false;
  bool stopped_ = false;
  std::stop_callback<stopper> on_stop_;
};

} // namespace feedline::test
