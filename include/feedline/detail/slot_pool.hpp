// SPDX-License-Identifier: MIT
#pragma once
// Memory for large values, one slot for each.
#include <atomic>
#include <cstddef>
#include <mutex>

#include <feedline/detail/block_cache.hpp>
#include <feedline/detail/kernel.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Slots of one size, carved out of large blocks. A thread that makes values takes slots, another one that has used
/// them gives them back. Each block returns to the cache of the process when none of its slots is in use, and a used
/// slot is preferred to a fresh one, so that beyond the slots in use there is at most one block of mostly fresh ones.
/// Any thread may use it.
class slot_pool {
 public:
  static constexpr std::size_t smallest_block = std::size_t{64} << 10;

  /// The pool for values of that many bytes.
  template <std::size_t Bytes>
  static slot_pool& of_size() {
    static slot_pool* const pool = [] {
      // Otherwise a child forked by another thread could find the mutex locked forever. The cache's own is locked while this
      // one is, so fork() must lock it later: then it is the first to be announced.
      static_cast<void>(block_cache::of_process());
      around_fork([] { of_size<Bytes>().mutex_.lock(); }, [] { of_size<Bytes>().mutex_.unlock(); });
      return new slot_pool(Bytes); // never destroyed: static values may outlive anything
    }();
    return *pool;
  }

  /// The size of a slot for this many bytes.
  static constexpr std::size_t bytes_for(std::size_t bytes) noexcept {
    constexpr std::size_t unit = block_cache::alignment;
    return (bytes + sizeof(block*) + unit - 1) / unit * unit;
  }

  /// Whether several of its slots lie in one block, of which some may be fresh.
  static constexpr bool shares_blocks(std::size_t bytes) noexcept {
    return bytes_for(bytes) < smallest_alone;
  }

  /// How much memory a value of this many bytes takes at most, with its share of what blocks leave unused.
  static constexpr std::size_t most_for(std::size_t bytes) noexcept {
    const std::size_t one = bytes_for(bytes);
    if (!shares_blocks(bytes)) return block_cache::bytes_for(bytes_before_slots + one);
    const std::size_t in_block = (huge_page - bytes_before_slots) / one;
    return (huge_page + in_block - 1) / in_block;
  }

  /// Memory for a value. Throws std::bad_alloc.
  void* take() {
    if constexpr (is_address_sanitized)
      return ::operator new(bytes_, std::align_val_t{block_cache::alignment});
    const std::lock_guard lock(mutex_);
    if (given_back_.load(std::memory_order_relaxed)) sort_given_back();
    if (!open_) add_block();
    block& from = *open_;
    slot* taken = from.free;
    if (taken) from.free = taken->next;
    else taken = from.fresh_slot(bytes_);
    if (++from.in_use == from.slots) close(from);
    in_use_.fetch_add(1, std::memory_order_relaxed);
    return taken;
  }

  /// Gives memory back that some pool's take() returned for a value of that many bytes.
  static void give_back(void* memory, std::size_t bytes) noexcept {
    if constexpr (is_address_sanitized) ::operator delete(memory, std::align_val_t{block_cache::alignment});
    else block::of(memory, bytes_for(bytes))->pool.give_back(::new (memory) slot);
  }

 private:
  static constexpr std::size_t bytes_before_slots = 2 * block_cache::alignment;
  static constexpr std::size_t smallest_alone = huge_page / 8; // slots of that size have blocks of their own

  struct slot {
    slot* next;
  };

  struct block {
    slot_pool& pool;
    const block_cache::block memory;
    const std::size_t slots;
    std::size_t in_use = 0;
    std::size_t begun = 0; // slots: all others are fresh
    slot* free = nullptr;
    block* next = nullptr;
    block* previous = nullptr;

    // Each slot ends with a pointer to its block.
    static block*& of(void* slot, std::size_t bytes) noexcept {
      return *reinterpret_cast<block**>(static_cast<std::byte*>(slot) + bytes - sizeof(block*));
    }

    slot* fresh_slot(std::size_t bytes) noexcept {
      std::byte* const at = reinterpret_cast<std::byte*>(this) + bytes_before_slots + begun++ * bytes;
      ::new (static_cast<void*>(&of(at, bytes))) block*(this);
      return ::new (static_cast<void*>(at)) slot;
    }
  };

  static_assert(sizeof(block) <= bytes_before_slots);

  explicit slot_pool(std::size_t bytes) noexcept : bytes_(bytes_for(bytes)) {}

  // Without a lock: the thread that takes the next slot finds it.
  void give_back(slot* s) noexcept {
    s->next = given_back_.load(std::memory_order_relaxed);
    while (!given_back_.compare_exchange_weak(s->next, s, std::memory_order_release,
                                              std::memory_order_relaxed)) {
    }
    if (in_use_.fetch_sub(1, std::memory_order_acq_rel) == 1) sort_last();
  }

  // The last slot in use was given back.
  void sort_last() noexcept;

  // The functions below are called with the lock.

  // Returns slots to their blocks, and empty blocks to the cache.
  void sort_given_back() noexcept;

  void add_block();
  void open(block& b) noexcept;
  void close(block& b) noexcept;

  const std::size_t bytes_; // of a slot
  std::mutex mutex_;
  block* open_ = nullptr;       // those with slots that aren't in use
  std::size_t block_bytes_ = 0; // of all blocks
  alignas(cache_line) std::atomic<slot*> given_back_{nullptr};
  std::atomic<std::size_t> in_use_{0};
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_DETAIL)
#include <algorithm>
#include <memory>
#include <utility>

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
#endif
