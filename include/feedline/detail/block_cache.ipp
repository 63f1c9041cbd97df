// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/detail/block_cache.hpp>

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
