// SPDX-License-Identifier: MIT
#pragma once
// Memory for a C library that decodes one image after another.
#include <cstddef>
#include <new>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Memory that is taken in blocks, freed at once after each image, and kept for the next one: up to 16 MB of it.
class image_memory {
 public:
  static constexpr std::size_t step =
      64; ///< sizes are rounded up to multiples of it: vector instructions reach past rows

  image_memory() noexcept = default;
  image_memory(const image_memory&) = delete;
  image_memory& operator=(const image_memory&) = delete;

  ~image_memory() {
    free_all();
    ::operator delete(memory_, alignment);
  }

  static std::size_t rounded(std::size_t bytes) noexcept { return (bytes + step - 1) / step * step; }

  /// Returns uninitialized memory, aligned for vector instructions, or null if there is none left.
  void* take(std::size_t bytes) noexcept;

  /// The number of bytes that were taken for this image.
  std::size_t taken() const noexcept { return taken_; }

  /// Frees all blocks and keeps one block that is large enough for an image like this one.
  void free_all() noexcept;

 private:
  static constexpr std::align_val_t alignment{step};
  static constexpr std::size_t most_kept = std::size_t{16} << 20;

  /// A block allocated in addition to the kept memory.
  struct extra {
    extra* next;
  };

  std::byte* memory_ = nullptr;
  std::size_t size_ = 0;
  std::size_t used_ = 0;
  std::size_t taken_ = 0;
  extra* extras_ = nullptr;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_IMAGE)
#include <algorithm>
#include <utility>

#include <feedline/detail/kernel.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void* image_memory::take(std::size_t wanted) noexcept {
  const std::size_t bytes = rounded(wanted);
  if (bytes + step < wanted) return nullptr;
  taken_ += bytes;
  // The address sanitizer checks the ends of blocks, so with it each call allocates its own block.
  if (!is_address_sanitized && size_ - used_ >= bytes) {
    std::byte* const at = memory_ + used_;
    used_ += bytes;
    return at;
  }
  void* const block = ::operator new(bytes + step, alignment, std::nothrow);
  if (!block) return nullptr;
  extras_ = new (block) extra{extras_};
  return static_cast<std::byte*>(block) + step;
}

FEEDLINE_INLINE void image_memory::free_all() noexcept {
  while (extras_) ::operator delete(std::exchange(extras_, extras_->next), alignment);
  const std::size_t needed = std::min(std::exchange(taken_, 0), most_kept);
  used_ = 0;
  if (needed <= size_) return;
  ::operator delete(memory_, alignment);
  memory_ = static_cast<std::byte*>(::operator new(needed + needed / 4, alignment, std::nothrow));
  size_ = memory_ ? needed + needed / 4 : 0;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
