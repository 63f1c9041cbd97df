// SPDX-License-Identifier: MIT
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

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

  /// How many positions from this one on are contiguous in memory.
  std::size_t run(std::uint64_t position) const noexcept { return mask_ + 1 - (position & mask_); }

 private:
  std::size_t mask_;
  T* items_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
