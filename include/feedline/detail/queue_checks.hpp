// SPDX-License-Identifier: MIT
#pragma once
// What every queue asks of its arguments.
#include <cstddef>
#include <stdexcept>
#include <type_traits>

#include <feedline/detail/given_size.hpp>

namespace feedline::inline v0::detail {

/// True, or a compile error that says why T can't be a queue's item.
template <class T>
constexpr bool is_queue_item() {
  static_assert(std::is_object_v<T> && !std::is_const_v<T>,
                "a queue's items must be objects: no reference, no const");
  static_assert(std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>,
                "a queue's items must be movable without throwing: declare their move constructor and move "
                "assignment noexcept");
  static_assert(std::is_nothrow_destructible_v<T>,
                "a queue's items must have a destructor that doesn't throw");
  return true;
}

/// `capacity` if it is from 1 to `most`; throws std::invalid_argument if not.
inline std::size_t checked_capacity(std::size_t capacity, std::size_t most) {
  if (capacity == 0) throw std::invalid_argument("a queue needs a capacity of at least 1");
  refuse_negative(capacity, "a queue's capacity");
  if (capacity > most) throw std::invalid_argument("a queue's capacity is too large");
  return capacity;
}

/// Calls stop() on a queue: what its std::stop_callback holds.
template <class Queue>
struct stop_queue {
  Queue* queue;

  void operator()() const noexcept { queue->stop(); }
};

} // namespace feedline::inline v0::detail
