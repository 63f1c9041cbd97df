// SPDX-License-Identifier: MIT
#pragma once
// Samples with large values: each is written once, into memory of its own, and from there on only a pointer moves.
#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <feedline/core/sample.hpp>
#include <feedline/detail/block_cache.hpp>
#include <feedline/detail/slot_pool.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A large value in a block of memory that others have used before and will use again. Moving it moves a pointer.
template <class T>
class slot {
 public:
  /// Makes the value by calling `make`, which returns it. Throws what `make` throws, and std::bad_alloc.
  template <class Make>
  explicit slot(Make&& make) {
    void* const memory = slot_pool::of_size<sizeof(sample<T>)>().take();
    try {
      held_.reset(::new (memory) sample<T>{std::forward<Make>(make)(), {}});
    } catch (...) {
      slot_pool::give_back(memory, sizeof(sample<T>));
      throw;
    }
  }

  /// The value. There is none after a move.
  T& operator*() const noexcept { return held_->value; }

  /// The value as a sample.
  sample<T>& named(const sample_id& id) const noexcept {
    held_->id = id;
    return *held_;
  }

 private:
  struct give_back {
    void operator()(sample<T>* held) const noexcept {
      std::destroy_at(held);
      slot_pool::give_back(held, sizeof(sample<T>));
    }
  };

  std::unique_ptr<sample<T>, give_back> held_;
};

/// Whether values of such a type are passed on in slots. For smaller ones that takes longer than to copy them: a slot costs
/// about 40 ns, and a copy of 4 KB in a processor's cache about as much.
template <class T>
inline constexpr bool is_large_item = sizeof(T) > 4096 && alignof(T) <= block_cache::alignment &&
                                      !comes_in_batches<T>;

/// What queues and buffers hold of an item of type T.
template <class T>
using carried = std::conditional_t<is_large_item<T>, slot<T>, T>;

/// How many more bytes an item takes in a queue or a buffer than by itself.
template <class T>
constexpr std::size_t bytes_besides_value() noexcept {
  if constexpr (is_large_item<T>) return sizeof(slot<T>) + slot_pool::most_for(sizeof(sample<T>)) - sizeof(T);
  else return 0;
}

/// The size of the slots that it shares blocks with; 0: its slot has a block to itself, or it has none.
template <class T>
constexpr std::size_t shared_slot_bytes() noexcept {
  if constexpr (is_large_item<T>)
    return slot_pool::shares_blocks(sizeof(sample<T>)) ? slot_pool::bytes_for(sizeof(sample<T>)) : 0;
  else return 0;
}

/// A sample as queues and buffers hold it; `make` returns its value. Throws what `make` throws, and std::bad_alloc.
template <class T, class Make>
[[gnu::always_inline]] inline sample<carried<T>> carry(Make&& make, const sample_id& id) {
  if constexpr (is_large_item<T>) return {slot<T>(std::forward<Make>(make)), id};
  else return {std::forward<Make>(make)(), id};
}

template <class T>
[[gnu::always_inline]] inline sample<carried<T>> carry(sample<T>&& s) {
  return carry<T>([&]() -> T&& { return std::move(s.value); }, s.id);
}

/// A value as its stage made it.
template <class T>
T& value_in(T& value) noexcept {
  return value;
}

template <class T>
T& value_in(slot<T>& value) noexcept {
  return *value;
}

template <class T>
const T& value_in(const slot<T>& value) noexcept {
  return *value;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
