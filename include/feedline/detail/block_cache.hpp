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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_DETAIL)
#include <utility>

#include <pthread.h>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::shared_ptr<block_cache> block_cache::over(std::pmr::memory_resource* resource) {
  if (!resource) return {std::shared_ptr<void>(), &of_process()};
  return {new block_cache(resource), [](block_cache* cache) { cache->abandon(); }};
}

/// The free blocks that a thread keeps of the cache of the process.
struct block_cache::own_blocks {
  /// Those of the calling thread.
  static own_blocks& of_thread() noexcept {
    // Without a destructor, as others may free tensors after it.
    static constinit thread_local own_blocks own;
    if (!std::exchange(own.is_known, true)) [[unlikely]]
      own.is_closed = ::pthread_setspecific(at_exit::of_library().key, &own) != 0;
    return own;
  }

  bool serve(std::size_t size) const noexcept { return !is_closed && size <= most_of_thread / 4; }

  block take() noexcept {
    --count;
    return {std::exchange(first, first->next), bytes};
  }

  void add(block b) noexcept {
    bytes = b.bytes;
    first = new (b.memory) free_block{first, bytes};
    ++count;
  }

  free_block* first = nullptr;
  std::size_t bytes = 0; // of each
  std::size_t count = 0;
  bool is_known = false;
  bool is_closed = false; // the thread ends, or nothing would return them then

 private:
  // Returns what a thread has when it ends. With the destructor of a thread_local object, the C library would end the process
  // if there is no memory to note that.
  struct at_exit {
    static const at_exit& of_library() noexcept {
      static const at_exit one;
      return one;
    }

    at_exit() noexcept {
      if (::pthread_key_create(&key, &give_back) != 0) key = ~::pthread_key_t{0}; // which is none
    }

    at_exit(const at_exit&) = delete;

    ~at_exit() { ::pthread_key_delete(key); } // the library may be unloaded

    static void give_back(void* of_thread) noexcept {
      own_blocks& own = *static_cast<own_blocks*>(of_thread);
      of_process().collect(own, 0);
      own.is_closed = true;
    }

    ::pthread_key_t key;
  };
};

FEEDLINE_INLINE void block_cache::collect(own_blocks& own, std::size_t left) noexcept {
  free_block* unwanted = nullptr;
  {
    const std::lock_guard lock(mutex_);
    while (own.count > left) {
      note_freed(own.bytes);
      keep(own.take());
    }
    unwanted = trim(in_use_);
  }
  give_back(unwanted);
}

FEEDLINE_INLINE void block_cache::hand_out(own_blocks& own, std::size_t bytes) noexcept {
  const std::size_t c = class_of(bytes);
  for (; free_[c] && own.count < most_of_thread / bytes / 2; in_use_ += bytes) own.add(take(c));
}

FEEDLINE_INLINE block_cache::block block_cache::allocate(std::size_t bytes) {
  if (!resource_ && !is_kept(bytes)) return {obtain(bytes), bytes};
  own_blocks* const own = resource_ ? nullptr : &own_blocks::of_thread();
  if (own && own->count > 0 && own->bytes == bytes_for(bytes)) return own->take();
  std::unique_lock lock(mutex_);
  block b = is_kept(bytes) ? find(class_of(bytes)) : block{};
  if (own && own->count == 0 && b.memory && b.spare == 0 && own->serve(b.bytes)) hand_out(*own, b.bytes);
  free_block* unwanted = nullptr;
  if (!b.memory) {
    b.bytes = bytes_for(bytes);
    unwanted = trim(in_use_ + b.bytes);
  }
  in_use_ += b.bytes - b.spare;
  spare_ += b.spare;
  most_in_use_ = std::max(most_in_use_, in_use_);
  ++blocks_out_;
  if (b.memory) return b;
  if (!resource_) lock.unlock();
  give_back(unwanted);
  try {
    b.memory = obtain(b.bytes);
  } catch (...) {
    if (!lock) lock.lock();
    in_use_ -= b.bytes;
    most_in_use_ = in_use_; // at most what it was
    --blocks_out_;
    throw;
  }
  return b;
}

FEEDLINE_INLINE void block_cache::deallocate(const block& b) noexcept {
  if (!resource_ && !is_kept(b.bytes)) return give_back(b);
  if (!resource_ && b.spare == 0) {
    own_blocks& own = own_blocks::of_thread();
    if (own.serve(b.bytes)) {
      if (own.count > 0 && own.bytes != b.bytes) collect(own, 0);
      own.add(b);
      if (own.count * own.bytes > most_of_thread) collect(own, own.count / 2);
      return;
    }
  }
  std::unique_lock lock(mutex_);
  note_freed(b.bytes - b.spare);
  spare_ -= std::min(spare_, b.spare);
  const bool is_last = --blocks_out_ == 0 && is_abandoned_;
  if (is_kept(b.bytes)) keep(b);
  free_block* const unwanted = is_kept(b.bytes) ? trim(in_use_) : nullptr;
  if (!resource_) lock.unlock();
  give_back(unwanted);
  if (!is_kept(b.bytes)) give_back(b);
  if (lock) lock.unlock();
  if (is_last) delete this;
}

FEEDLINE_INLINE std::size_t block_cache::held() {
  const std::lock_guard lock(mutex_);
  return held_;
}

FEEDLINE_INLINE block_cache* block_cache::make() {
  // Otherwise a child forked by another thread could find the mutex locked forever.
  around_fork([] { of_process().mutex_.lock(); }, [] { of_process().mutex_.unlock(); });
  return new block_cache(nullptr); // never destroyed: static tensors may outlive anything
}

FEEDLINE_INLINE void block_cache::abandon() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_abandoned_ = true;
    if (blocks_out_ > 0) return;
  }
  delete this;
}

FEEDLINE_INLINE void* block_cache::obtain(std::size_t bytes) const {
  if (resource_) return resource_->allocate(bytes, alignment);
  const std::align_val_t aligned = is_kept(bytes) ? alignment_of(bytes) : std::align_val_t{alignment};
  void* const memory = ::operator new(bytes, aligned);
  if (is_kept(bytes) && bytes >= huge_page) use_huge_pages(memory, bytes);
  return memory;
}

FEEDLINE_INLINE void block_cache::give_back(free_block* list) const noexcept {
  while (list) {
    const block b{list, list->bytes};
    list = list->next;
    give_back(b);
  }
}

FEEDLINE_INLINE void block_cache::give_back(block b) const noexcept {
  if (resource_) resource_->deallocate(b.memory, b.bytes, alignment);
  else ::operator delete(b.memory, is_kept(b.bytes) ? alignment_of(b.bytes) : std::align_val_t{alignment});
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
