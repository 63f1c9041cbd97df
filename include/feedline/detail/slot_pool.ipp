// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/detail/slot_pool.hpp>

#include <algorithm>
#include <memory>
#include <utility>

#include <feedline/detail/kernel.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void slot_pool::sort_last() noexcept {
  const std::lock_guard lock(mutex_);
  sort_given_back();
}

FEEDLINE_INLINE void slot_pool::sort_given_back() noexcept {
  slot* left = given_back_.exchange(nullptr, std::memory_order_acquire);
  while (left) {
    slot* const next = left->next;
    block& b = *block::of(left, bytes_);
    left->next = std::exchange(b.free, left);
    left = next;
    if (b.in_use-- == b.slots) open(b);
    if (b.in_use > 0) continue;
    close(b);
    const block_cache::block memory = b.memory;
    block_bytes_ -= memory.bytes;
    std::destroy_at(&b);
    block_cache::of_process().deallocate(memory);
  }
}

FEEDLINE_INLINE void slot_pool::add_block() {
  // As large as all before together, so that few values take little memory and many are in huge pages.
  const std::size_t shared = std::clamp(block_bytes_, smallest_block, huge_page);
  const std::size_t wanted = bytes_before_slots + bytes_;
  const block_cache::block memory =
      block_cache::of_process().allocate(bytes_ < smallest_alone ? std::max(wanted, shared) : wanted);
  const std::size_t usable = memory.bytes - memory.spare;
  open(*::new (memory.memory) block{*this, memory, (usable - bytes_before_slots) / bytes_});
  block_bytes_ += memory.bytes;
}

FEEDLINE_INLINE void slot_pool::open(block& b) noexcept {
  b.previous = nullptr;
  b.next = open_;
  if (open_) open_->previous = &b;
  open_ = &b;
}

FEEDLINE_INLINE void slot_pool::close(block& b) noexcept {
  (b.previous ? b.previous->next : open_) = b.next;
  if (b.next) b.next->previous = b.previous;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
