// SPDX-License-Identifier: MIT
#pragma once
// Memory for tensors that are allocated and freed at a steady rate: a new tensor reuses a freed block.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <new>

#include <feedline/detail/kernel.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Keeps freed blocks for the next tensor of about their size. The allocators of C libraries return blocks of
/// this size to the system instead, and the next tensor then costs a page fault for each 4 KB: for a photograph
/// that can be a third of its decoding time.
///
/// It never holds more than 64 MB beyond the memory in use: enough for the next run to start with, and not much
/// to keep. Together with the memory in use it never exceeds the peak use by more than 64 MB. A block counts as
/// in use with its bytes_for(); if it once served a larger tensor, the excess counts as held. There is one
/// cache for the process, and one for each stage whose tensors use a user's memory resource. Any thread
/// may use it. Each thread keeps up to 64 KB of small blocks of one size for itself (in each library that hides its
/// symbols), which it takes and returns without a lock; they count as in use.
class block_cache {
 public:
  static constexpr std::size_t alignment = 64;

  /// Smaller blocks are allocated from the system, unless the caller rounds them up to this size.
  static constexpr std::size_t smallest = std::size_t{1} << 12;

  /// A block and its size, which may be larger than was asked for.
  struct block {
    void* memory = nullptr;
    std::size_t bytes = 0;
    std::size_t spare = 0; ///< its excess over bytes_for() the requested size
  };

  /// The cache of the process. Its symbol is visible, so that libraries that hide theirs share it.
  [[gnu::visibility("default")]] static block_cache& of_process() {
    static block_cache* const cache = make();
    return *cache;
  }

  /// A cache that allocates its blocks from a resource, which must outlive the cache and each block; without a
  /// resource, the cache of the process. It lives as long as the handle or any of its blocks.
  static std::shared_ptr<block_cache> over(std::pmr::memory_resource* resource);

  /// The size of a block for this many bytes.
  static constexpr std::size_t bytes_for(std::size_t bytes) noexcept {
    return is_kept(bytes) ? size_of(class_of(bytes)) : bytes;
  }

  block_cache(const block_cache&) = delete;

  /// Returns a block of at least `bytes` bytes. Throws what the resource throws, or std::bad_alloc.
  block allocate(std::size_t bytes);

  // By reference: copied, the block would be read again right after it was written, which stalls the processor.
  void deallocate(const block& b) noexcept;

  /// How many bytes of free blocks it holds.
  std::size_t held();

 private:
  struct free_block {
    free_block* next;
    std::size_t bytes;
  };

  struct own_blocks;

  static constexpr std::align_val_t alignment_of(std::size_t bytes) noexcept {
    return std::align_val_t{bytes >= huge_page ? huge_page : alignment};
  }

  // Eight sizes between each power of two and the next, from 4 KB to 16 GB; the system serves all others.
  static constexpr std::size_t always_held = std::size_t{64} << 20;
  static constexpr std::size_t most_of_thread = std::size_t{64} << 10;
  static constexpr std::size_t almost_nothing = 64 * most_of_thread; // threads may keep it for themselves
  static constexpr std::size_t largest = std::size_t{1} << 34;
  static constexpr std::size_t classes_per_doubling = 8;
  static constexpr std::size_t classes = 22 * classes_per_doubling + 1;

  static constexpr bool is_kept(std::size_t bytes) noexcept {
    return bytes >= smallest && bytes <= largest && !is_address_sanitized;
  }

  // The smallest class whose blocks have at least this many bytes.
  static constexpr std::size_t class_of(std::size_t bytes) noexcept {
    const auto doublings = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 12; // 0: exactly `smallest`
    if (doublings == 0) return 0;
    const std::size_t step = smallest << (doublings - 1) >> 3;
    return doublings * classes_per_doubling + (bytes + step - 1) / step - 2 * classes_per_doubling;
  }

  static constexpr std::size_t size_of(std::size_t c) noexcept {
    return (smallest >> 3) * (classes_per_doubling + c % classes_per_doubling) << (c / classes_per_doubling);
  }

  explicit block_cache(std::pmr::memory_resource* resource) : resource_(resource) {}

  ~block_cache() {
    for (std::size_t c = 0; c < classes; ++c)
      while (free_[c]) give_back(take(c));
  }

  static block_cache* make();

  // Called when the handle is gone.
  void abandon() noexcept;

  // Allocates from the system or the resource. For the resource, which may not be thread-safe, the caller holds the lock; the
  // system may take long, so other threads don't wait for it.
  void* obtain(std::size_t bytes) const;

  void give_back(block b) const noexcept;

  void give_back(free_block* list) const noexcept;

  // A free block of the class or, as long as the total excess stays small, of a somewhat larger one.
  block find(std::size_t wanted) noexcept {
    for (std::size_t c = wanted; c < classes && c <= wanted + classes_per_doubling / 2; ++c) {
      const std::size_t spare = size_of(c) - size_of(wanted);
      if (spare_ + spare > always_held) break;
      if (free_[c]) return take(c, spare);
    }
    return {};
  }

  void note_freed(std::size_t bytes) noexcept {
    in_use_ -= std::min(in_use_, bytes); // two libraries may still have separate caches
    if (in_use_ <= almost_nothing) most_in_use_ = in_use_;
  }

  // Keeps a freed block.
  void keep(block b) noexcept {
    held_ += b.bytes;
    free_block*& list = free_[class_of(b.bytes)];
    list = new (b.memory) free_block{list, b.bytes};
  }

  // Moves blocks of one size from the calling thread to the cache until the thread has only that many left.
  void collect(own_blocks& own, std::size_t left) noexcept;

  // Moves free blocks of that size to the calling thread, which has none.
  void hand_out(own_blocks& own, std::size_t bytes) noexcept;

  // Takes out the blocks beyond the limit for this much memory in use.
  [[nodiscard]] free_block* trim(std::size_t in_use) noexcept {
    const std::size_t most = always_held + std::min(in_use, std::max(in_use, most_in_use_) - in_use);
    free_block* list = nullptr;
    for (std::size_t c = classes; held_ + spare_ > most && c-- > 0;)
      while (held_ + spare_ > most && free_[c]) list = new (take(c).memory) free_block{list, size_of(c)};
    return list;
  }

  block take(std::size_t c, std::size_t spare = 0) noexcept {
    free_block* const b = free_[c];
    free_[c] = b->next;
    held_ -= size_of(c);
    return {b, size_of(c), spare};
  }

  std::pmr::memory_resource* const resource_; // null: the system
  std::mutex mutex_;
  std::array<free_block*, classes> free_{};
  std::size_t in_use_ = 0; // bytes, without spare ones
  std::size_t spare_ = 0;
  std::size_t held_ = 0;
  std::size_t most_in_use_ = 0; // the peak since that was last next to nothing
  std::size_t blocks_out_ = 0;  // of a user's resource
  bool is_abandoned_ = false;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/detail/block_cache.ipp>
#endif
