// SPDX-License-Identifier: MIT
#pragma once
// The checks that all queues apply to their types and arguments.
#include <cstddef>
#include <stdexcept>
#include <type_traits>

#include <feedline/detail/given_size.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// True, or a compile error with the reason why T can't be a queue's item.
template <class T>
constexpr bool is_queue_item() {
  static_assert(std::is_object_v<T> && !std::is_const_v<T>,
                "a queue's items must be objects: neither references nor const");
  static_assert(std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>,
                "a queue's items must be movable without throwing: declare their move constructor and move "
                "assignment noexcept");
  static_assert(std::is_nothrow_destructible_v<T>,
                "a queue's items must have a destructor that doesn't throw");
  return true;
}

/// Returns `capacity` if it is from 1 to `max`; throws std::invalid_argument otherwise.
inline std::size_t checked_capacity(std::size_t capacity, std::size_t max) {
  if (capacity == 0) throw std::invalid_argument("a queue's capacity must be at least 1");
  refuse_negative(capacity, "a queue's capacity");
  if (capacity > max) throw std::invalid_argument("a queue's capacity is too large");
  return capacity;
}

/// The callback by which a stop token stops a queue.
template <class Queue>
struct stop_queue {
  Queue* queue;

  void operator()() const noexcept { queue->stop(); }
};

} // namespace feedline::inline FEEDLINE_ABI::detail
