// SPDX-License-Identifier: MIT
#pragma once
// The calls that spsc_queue and mpmc_queue have in common.
#include <chrono>
#include <concepts>
#include <cstddef>
#include <span>
#include <utility>

#include <feedline/detail/queue_checks.hpp>
#include <feedline/detail/waiting.hpp>
#include <feedline/queue/queue_status.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Makes the calls of a queue that wait from those that don't, try_push() and so on.
template <class Queue, class T>
class blocking_queue {
  static_assert(detail::is_queue_item<T>());

 public:
  using value_type = T;

  blocking_queue(const blocking_queue&) = delete;
  blocking_queue& operator=(const blocking_queue&) = delete;

  /// Puts an item in, waiting while the queue is full. Returns success or closed; closed leaves `item`
  /// untouched.
  queue_status push(T&& item) { return push_until(item, detail::no_deadline); }

  /// Pushes a copy of `item`.
  queue_status push(const T& item)
    requires std::copy_constructible<T>
  {
    return push(T(item));
  }

  /// Puts an item in, waiting for at most `longest` while the queue is full. Returns success, full or closed;
  /// the last two leave `item` untouched.
  queue_status push_for(T&& item, std::chrono::nanoseconds longest) {
    const queue_status status = queue().try_push(std::move(item));
    if (status != queue_status::full || longest.count() <= 0) return status;
    return push_until(item, detail::after(longest));
  }

  /// Puts all `items` in, in order, waiting while the queue is full. Returns how many it put in: fewer than
  /// all only if the queue was closed or stopped.
  std::size_t push_bulk(std::span<T> items) {
    std::size_t moved = 0;
    while (moved < items.size()) {
      const std::size_t count = queue().try_push_bulk(items.subspan(moved));
      moved += count;
      if (count > 0) continue;
      if (queue().is_closed()) break;
      queue().wait_for_room(detail::no_deadline);
    }
    return moved;
  }

  /// Takes an item out, waiting while there is none. Returns success or closed.
  queue_status pop(T& item) { return pop_until(item, detail::no_deadline); }

  /// Takes an item out, waiting for at most `longest` while there is none. Returns success, empty or closed.
  queue_status pop_for(T& item, std::chrono::nanoseconds longest) {
    const queue_status status = queue().try_pop(item);
    if (status != queue_status::empty || longest.count() <= 0) return status;
    return pop_until(item, detail::after(longest));
  }

  /// Takes out at least one and at most items.size() items, waiting while there is none. Returns how many: 0
  /// only if the queue is closed or stopped, or `items` is empty.
  std::size_t pop_bulk(std::span<T> items) {
    while (!items.empty()) {
      if (const std::size_t count = queue().try_pop_bulk(items); count > 0) return count;
      if (queue().ended()) break;
      queue().wait_for_items(detail::no_deadline);
    }
    return 0;
  }

 protected:
  blocking_queue() = default;
  ~blocking_queue() = default;

 private:
  Queue& queue() noexcept { return static_cast<Queue&>(*this); }

  // The queue's waits return false if the deadline has passed, and true when the caller should try again.
  queue_status push_until(T& item, detail::deadline until) {
    for (;;) {
      const queue_status status = queue().try_push(std::move(item));
      if (status != queue_status::full) [[likely]]
        return status;
      if (!queue().wait_for_room(until)) return status;
    }
  }

  queue_status pop_until(T& item, detail::deadline until) {
    for (;;) {
      const queue_status status = queue().try_pop(item);
      if (status != queue_status::empty) [[likely]]
        return status;
      if (!queue().wait_for_items(until)) return status;
    }
  }
};

} // namespace feedline::inline FEEDLINE_ABI
