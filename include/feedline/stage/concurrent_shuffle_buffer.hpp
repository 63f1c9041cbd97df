// SPDX-License-Identifier: MIT
#pragma once
// The shuffle buffer for those who wire their own threads.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/random.hpp>
#include <feedline/stage/shuffle.hpp>

namespace feedline {

/// Any number of threads push items, any number take random ones. Which item comes depends on the seed and on
/// the order in which threads come to it: for runs that repeat to the byte use the stage `shuffle`.
template <class T>
class concurrent_shuffle_buffer {
  static_assert(std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>,
                "feedline::concurrent_shuffle_buffer: items are moved about inside, which must not throw");

 public:
  /// Throws std::invalid_argument for a capacity of 0 or a min_fill above it.
  explicit concurrent_shuffle_buffer(const shuffle_options& options, std::uint64_t seed = 0)
      : options_(options), random_(detail::key(seed)) {
    detail::check_shuffle(options);
    items_.reserve(options.capacity);
  }

  concurrent_shuffle_buffer(const concurrent_shuffle_buffer&) = delete;

  /// Waits while the buffer is full. False, the item left as it was: the buffer is closed.
  bool push(T&& item) { return push_item(std::move(item)); }

  bool push(const T& item) { return push_item(item); }

  /// A random item, each of those inside equally likely, as soon as `min_fill` are in; once the buffer is
  /// closed, whatever is left. Waits at most so long. Nothing: none came in time, or the buffer is closed and
  /// empty.
  template <class Rep, class Period>
  std::optional<T> try_pop(const std::chrono::duration<Rep, Period>& timeout) {
    // The clock can't count to a time much further off.
    constexpr std::chrono::hours longest(24 * 365);
    const auto ready = [&] { return closed_ || gives(); };
    std::unique_lock lock(mutex_);
    if (timeout >= longest) not_empty_.wait_for(lock, longest, ready);
    else if (timeout > timeout.zero()) not_empty_.wait_for(lock, timeout, ready);
    if (items_.empty() || (!closed_ && !gives())) return std::nullopt;
    const auto i = static_cast<std::size_t>(random_.below(items_.size()));
    std::optional<T> picked(std::move(items_[i]));
    if (i + 1 != items_.size()) items_[i] = std::move(items_.back());
    items_.pop_back();
    lock.unlock();
    not_full_.notify_one();
    return picked;
  }

  /// Nothing more may be pushed; what's inside can still be taken.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    not_empty_.notify_all();
    not_full_.notify_all();
  }

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
  template <class Item>
  bool push_item(Item&& item) {
    std::unique_lock lock(mutex_);
    not_full_.wait(lock, [&] { return closed_ || items_.size() < options_.capacity; });
    if (closed_) return false;
    items_.push_back(std::forward<Item>(item));
    const bool one_more = gives();
    lock.unlock();
    if (one_more) not_empty_.notify_one(); // more than one can't be taken for one that came
    return true;
  }

  bool gives() const { return !items_.empty() && items_.size() >= options_.min_fill; }

  shuffle_options options_;
  mutable std::mutex mutex_;
  std::condition_variable not_empty_;
  std::condition_variable not_full_;
  std::vector<T> items_;
  random_generator random_;
  bool closed_ = false;
};

} // namespace feedline
