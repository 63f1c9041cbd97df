// SPDX-License-Identifier: MIT
#pragma once
// The shuffle buffer for those who wire their own threads.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/random.hpp>
#include <feedline/detail/kernel.hpp>
#include <feedline/detail/queue_checks.hpp>
#include <feedline/queue/queue_status.hpp>
#include <feedline/stage/shuffle.hpp>

namespace feedline::inline v0 {

/// Any number of threads push items, any number take random ones. Which item comes depends on the seed and on
/// the order in which threads come to it: for runs that repeat to the byte use the stage `shuffle`.
///
/// close() ends the stream: what is inside can still be taken. stop(), or the token given to the constructor,
/// abandons it: waiters wake at once, and the items left inside are destroyed with the buffer.
template <class T>
class concurrent_shuffle_buffer {
  static_assert(std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>,
                "feedline::concurrent_shuffle_buffer: items are moved about inside, which must not throw");

 public:
  /// `stop` stops it. Throws std::invalid_argument for a capacity of 0 or a min_fill above it.
  explicit concurrent_shuffle_buffer(const shuffle_options& options, std::uint64_t seed = 0,
                                     std::stop_token stop = {})
      : options_(options),
        random_(detail::key(seed)),
        items_(reserved(options)),
        on_stop_(std::move(stop), detail::stop_queue<concurrent_shuffle_buffer>{this}) {}

  concurrent_shuffle_buffer(const concurrent_shuffle_buffer&) = delete;

  /// Waits while the buffer is full. False, the item left as it was: the buffer is closed.
  bool push(T&& item) { return push_until(std::move(item), detail::no_deadline) == queue_status::success; }

  bool push(const T& item) { return push_until(item, detail::no_deadline) == queue_status::success; }

  /// The same, but waits for at most `longest`. Returns success, full or closed; the last two leave `item` as
  /// it was.
  queue_status push_for(T&& item, std::chrono::nanoseconds longest) {
    return push_until(std::move(item), detail::after(longest));
  }

  /// Takes a random item out, each of those inside equally likely, as soon as `min_fill` are in; once the
  /// buffer is closed, whatever is left. Waits for at most `longest`. Returns success, empty or closed.
  queue_status pop_for(T& item, std::chrono::nanoseconds longest) {
    return take(longest, [&](T&& picked) { item = std::move(picked); });
  }

  /// The same as an optional, and with a time in any unit. Nothing: none came in time, or the buffer is closed
  /// and empty.
  template <class Rep, class Period>
  std::optional<T> try_pop(const std::chrono::duration<Rep, Period>& timeout) {
    // Nanoseconds can't count to a time much further off.
    constexpr std::chrono::hours longest(24 * 365);
    std::chrono::nanoseconds time{0};
    if (timeout >= longest) time = std::chrono::nanoseconds::max();
    else if (timeout > timeout.zero()) time = std::chrono::duration_cast<std::chrono::nanoseconds>(timeout);
    std::optional<T> picked;
    take(time, [&](T&& item) { picked.emplace(std::move(item)); });
    return picked;
  }

  /// Nothing more may be pushed; what is inside can still be taken.
  void close() { end(false); }

  /// Nothing more may be pushed or taken.
  void stop() { end(true); }

  /// True once the buffer is closed or stopped; items may still be inside.
  bool is_closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

  std::size_t capacity() const noexcept { return options_.capacity; }

  /// How many items are inside, for metrics: it may have changed already.
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
    const bool one_more = gives();
    lock.unlock();
    if (one_more) not_empty_.notify_one(); // more than one can't be taken for one that came
    return queue_status::success;
  }

  // Hands the item that was picked to `give`.
  template <class Give>
  queue_status take(std::chrono::nanoseconds longest, Give give) {
    std::unique_lock lock(mutex_);
    wait_until(not_empty_, lock, detail::after(longest), [&] { return closed_ || gives(); });
    if (stopped_ || (closed_ && items_.empty())) return queue_status::closed;
    if (!closed_ && !gives()) return queue_status::empty;
    const auto i = static_cast<std::size_t>(random_.below(items_.size()));
    give(std::move(items_[i]));
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

  bool gives() const { return !items_.empty() && items_.size() >= options_.min_fill; }

  const shuffle_options options_;
  mutable std::mutex mutex_;
  std::condition_variable not_empty_;
  std::condition_variable not_full_;
  random_generator random_;
  std::vector<T> items_;
  bool closed_ = false;
  bool stopped_ = false;
  std::stop_callback<detail::stop_queue<concurrent_shuffle_buffer>>
      on_stop_; // last: it may run in the constructor
};

} // namespace feedline::inline v0
