// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Raw memory for at least `capacity` items, addressed by positions that only grow. The user creates and
/// destroys the items.
template <class T>
class ring {
 public:
  explicit ring(std::size_t capacity)
      : mask_(std::bit_ceil(capacity) - 1), items_(std::allocator<T>().allocate(mask_ + 1)) {}

  ring(const ring&) = delete;
  ring& operator=(const ring&) = delete;

  ~ring() { std::allocator<T>().deallocate(items_, mask_ + 1); }

  /// The address of the item at `position`.
  T* at(std::uint64_t position) const noexcept { return items_ + (position & mask_); }

  /// Moves `items` into new ones from `position` on.
  void put(std::uint64_t position, std::span<T> items) const noexcept {
    const std::size_t run = std::min(items.size(), contiguous(position));
    std::uninitialized_move_n(items.data(), run, at(position));
    std::uninitialized_move_n(items.data() + run, items.size() - run, at(position + run));
  }

  /// Moves the items from `position` on to `items`, and destroys them here.
  void take(std::uint64_t position, std::span<T> items) const noexcept {
    const std::size_t run = std::min(items.size(), contiguous(position));
    take_run(at(position), items.first(run));
    take_run(at(position + run), items.subspan(run));
  }

  /// Moves one item out, and destroys it here.
  static void take_from(T* source, T& item) noexcept {
    item = std::move(*source);
    std::destroy_at(source);
  }

 private:
  std::size_t contiguous(std::uint64_t position) const noexcept { return mask_ + 1 - (position & mask_); }

  static void take_run(T* source, std::span<T> items) noexcept {
    if constexpr (std::is_trivially_copyable_v<T>) {
      if (!items.empty()) std::memcpy(static_cast<void*>(items.data()), source, items.size_bytes());
    } else {
      for (T& item : items) take_from(source++, item);
    }
  }

  std::size_t mask_;
  T* items_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
