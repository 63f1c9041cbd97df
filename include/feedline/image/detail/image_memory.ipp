// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/image/detail/image_memory.hpp>

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
