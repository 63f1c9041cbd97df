// SPDX-License-Identifier: MIT
#pragma once
// A shuffle buffer for programs that start their own threads.
#include <chrono>
#include <condition_variable>
#include <mutex>

#include <feedline/core/contract.hpp>
#include <feedline/detail/kernel.hpp>
#include <feedline/detail/queue_checks.hpp>
#include <feedline/queue/queue_status.hpp>
#include <feedline/stage/shuffle.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// A shuffle buffer into which any number of threads push items, and from which any number take random ones.
/// Which item a thread gets depends on the seed and on the order of the threads' calls: for runs that repeat
/// exactly use the stage `shuffle`.
///
/// close() ends the stream: the items inside can still be taken. stop(), or the token passed to the
/// constructor, abandons it: waiting threads wake at once, and the items left inside are destroyed with the
/// buffer.
template <class T>
class concurrent_shuffle_buffer {
  static_assert(
      std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>,
      "feedline::concurrent_shuffle_buffer: the buffer moves its items, and their moves must be noexcept");

 public:
  /// A stop request to `stop` stops the buffer. Throws std::invalid_argument for a capacity of 0 or a
  /// min_fill above it.
  explicit concurrent_shuffle_buffer(const shuffle_options& options, std::uint64_t seed = 0,
                                     std::stop_token stop = {})
      : options_(options),
        random_(detail::key(seed)),
        items_(reserved(options)),
        on_stop_(std::move(stop), detail::stop_queue<concurrent_shuffle_buffer>{this}) {}

  concurrent_shuffle_buffer(const concurrent_shuffle_buffer&) = delete;

  /// Waits while the buffer is full. Returns false, and leaves the item as it was, if the buffer is closed.
  bool push(T&& item) { return push_until(std::move(item), detail::no_deadline) == queue_status::success; }

  /// The same for a copy of the item.
  bool push(const T& item) { return push_until(item, detail::no_deadline) == queue_status::success; }

  /// The same, but waits at most `longest`. Returns success, full or closed; full and closed leave `item` as
  /// it was.
  queue_status push_for(T&& item, std::chrono::nanoseconds longest) {
    return push_until(std::move(item), detail::after(longest));
  }

  /// Takes out a random item, each of those inside with the same probability, once `min_fill` are inside;
  /// from a closed buffer also with fewer inside. Waits at most `longest`. Returns success, empty or closed.
  queue_status pop_for(T& item, std::chrono::nanoseconds longest) {
    return take(longest, [&](T&& picked) { item = std::move(picked); });
  }

  /// The same, but returns an optional, and takes a time in any unit. Returns nothing if no item arrived in
  /// time, or if the buffer is closed and empty.
  template <class Rep, class Period>
  std::optional<T> try_pop(const std::chrono::duration<Rep, Period>& timeout) {
    // A 64-bit number of nanoseconds can't hold a much longer time.
    constexpr std::chrono::hours longest(24 * 365);
    std::chrono::nanoseconds time{0};
    if (timeout >= longest) time = std::chrono::nanoseconds::max();
    else if (timeout > timeout.zero()) time = std::chrono::duration_cast<std::chrono::nanoseconds>(timeout);
    std::optional<T> picked;
    take(time, [&](T&& item) { picked.emplace(std::move(item)); });
    return picked;
  }

  /// Refuses further items; those inside can still be taken.
  void close() { end(false); }

  /// Refuses further items, and nothing more can be taken.
  void stop() { end(true); }

  /// True once the buffer is closed or stopped; items may still be inside.
  bool is_closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

  /// The most items that it can hold.
  std::size_t capacity() const noexcept { return options_.capacity; }

  /// The number of items inside, for metrics: other threads may change it meanwhile.
  std::size_t size_approx() const {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  static std::vector<T> reserved(const shuffle_options& options) {
    detail::check_shuffle(options);
    std::vector<T> items;
    items.reserve(options.capacity);
    return items;
  }

  template <class Ready>
  static void wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                         detail::deadline until, Ready ready) {
    if (until == detail::no_deadline) changed.wait(lock, ready);
    else changed.wait_until(lock, until, ready);
  }

  template <class Item>
  queue_status push_until(Item&& item, detail::deadline until) {
    std::unique_lock lock(mutex_);
    wait_until(not_full_, lock, until, [&] { return closed_ || items_.size() < options_.capacity; });
    if (closed_) return queue_status::closed;
    if (items_.size() == options_.capacity) return queue_status::full;
    items_.push_back(std::forward<Item>(item));
    const bool one_more = can_take();
    lock.unlock();
    if (one_more) not_empty_.notify_one(); // one new item lets one thread take an item, not more
    return queue_status::success;
  }

  // Passes the picked item to `receive`.
  template <class Receive>
  queue_status take(std::chrono::nanoseconds longest, Receive receive) {
    std::unique_lock lock(mutex_);
    wait_until(not_empty_, lock, detail::after(longest), [&] { return closed_ || can_take(); });
    if (stopped_ || (closed_ && items_.empty())) return queue_status::closed;
    if (!closed_ && !can_take()) return queue_status::empty;
    const auto i = static_cast<std::size_t>(random_.below(items_.size()));
    receive(std::move(items_[i]));
    if (i + 1 != items_.size()) items_[i] = std::move(items_.back());
    items_.pop_back();
    lock.unlock();
    not_full_.notify_one();
    return queue_status::success;
  }

  void end(bool stopped) {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      stopped_ = stopped_ || stopped;
    }
    not_empty_.notify_all();
    not_full_.notify_all();
  }

  bool can_take() const { return !items_.empty() && items_.size() >= options_.min_fill; }

  const shuffle_options options_;
  mutable std::mutex mutex_;
  std::condition_variable not_empty_;
  std::condition_variable not_full_;
  random_generator random_;
  std::vector<T> items_;
  bool closed_ = false;
  bool stopped_ = false;
  std::stop_callback<detail::stop_queue<concurrent_shuffle_buffer>>
      on_stop_; // last: the callback may run in the constructor
};

} // namespace feedline::inline FEEDLINE_ABI
