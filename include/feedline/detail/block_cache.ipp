// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/detail/block_cache.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::shared_ptr<block_cache> block_cache::over(std::pmr::memory_resource* resource) {
  if (!resource) return {std::shared_ptr<void>(), &of_process()};
  return {new block_cache(resource), [](block_cache* cache) { cache->abandon(); }};
}

FEEDLINE_INLINE block_cache::block block_cache::allocate(std::size_t bytes) {
  if (!resource_ && !is_kept(bytes)) return {obtain(bytes), bytes};
  std::unique_lock lock(mutex_);
  block b = is_kept(bytes) ? find(class_of(bytes)) : block{};
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

FEEDLINE_INLINE void block_cache::deallocate(block b) noexcept {
  if (!resource_ && !is_kept(b.bytes)) return give_back(b);
  std::unique_lock lock(mutex_);
  in_use_ -= std::min(in_use_, b.bytes - b.spare); // two libraries may still have separate caches
  spare_ -= std::min(spare_, b.spare);
  if (in_use_ == 0) most_in_use_ = 0;
  const bool is_last = --blocks_out_ == 0 && is_abandoned_;
  free_block* const unwanted = is_kept(b.bytes) ? keep(b) : nullptr;
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
