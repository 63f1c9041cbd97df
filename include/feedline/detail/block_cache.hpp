// SPDX-License-Identifier: MIT
#pragma once
// Memory for tensors that come and go at a steady rate: what one thread frees, the next tensor takes.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

#include <feedline/detail/kernel.hpp>

namespace feedline::detail {

/// Keeps freed blocks for the next tensor of about their size. The allocators of C libraries give blocks of
/// this size back to the system instead, which then takes a page fault for each 4 KB of the next one: for a
/// photograph that can be a third of the time that its decoding takes.
///
/// It never holds more than 64 MB beyond what is in use at that moment: enough for the next run to begin
/// with, and not much to stay behind. One for the whole process; any thread may use it.
class block_cache {
 public:
  static constexpr std::size_t alignment = 64;

  /// A block and its size, which may be larger than was asked for.
  struct block {
    void* memory = nullptr;
    std::size_t bytes = 0;
  };

  /// At least `bytes` bytes. Throws std::bad_alloc.
  static block allocate(std::size_t bytes) {
    if (!is_kept(bytes)) return {::operator new(bytes, std::align_val_t{alignment}), bytes};
    if (const block b = instance().find(class_of(bytes)); b.memory) return b;
    const std::size_t size = size_of(class_of(bytes));
    void* const memory = ::operator new(size, alignment_of(size));
    if (size >= huge_page) use_huge_pages(memory, size);
    instance().count(size);
    return {memory, size};
  }

  static void deallocate(block b) noexcept {
    if (!is_kept(b.bytes)) return ::operator delete(b.memory, std::align_val_t{alignment});
    for (free_block* excess = instance().keep(b); excess;) {
      const free_block gone = *excess;
      ::operator delete(excess, alignment_of(gone.bytes));
      excess = gone.next;
    }
  }

  /// How many bytes lie ready.
  static std::size_t held() {
    const std::lock_guard lock(instance().mutex_);
    return instance().held_;
  }

 private:
  struct free_block {
    free_block* next;
    std::size_t bytes;
  };

  static constexpr std::align_val_t alignment_of(std::size_t bytes) noexcept {
    return std::align_val_t{bytes >= huge_page ? huge_page : alignment};
  }

  // Eight sizes between each power of two and the next, from 4 KB to 16 GB; all others come from the system.
  static constexpr std::size_t always_held = std::size_t{64} << 20;
  static constexpr std::size_t smallest = std::size_t{1} << 12;
  static constexpr std::size_t largest = std::size_t{1} << 34;
  static constexpr std::size_t classes_per_doubling = 8;
  static constexpr std::size_t classes = 22 * classes_per_doubling + 1;

  static constexpr bool is_kept(std::size_t bytes) noexcept {
    return bytes >= smallest && bytes <= largest && !is_address_sanitized;
  }

  // The smallest class whose blocks have so many bytes.
  static constexpr std::size_t class_of(std::size_t bytes) noexcept {
    const auto doublings = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 12; // 0: exactly `smallest`
    if (doublings == 0) return 0;
    const std::size_t step = smallest << (doublings - 1) >> 3;
    return doublings * classes_per_doubling + (bytes + step - 1) / step - 2 * classes_per_doubling;
  }

  static constexpr std::size_t size_of(std::size_t c) noexcept {
    return (smallest >> 3) * (classes_per_doubling + c % classes_per_doubling) << (c / classes_per_doubling);
  }

  // Visible, so that libraries that hide their symbols share it with the rest of the process.
  [[gnu::visibility("default")]] static block_cache& instance() {
    static block_cache* const cache = make();
    return *cache;
  }

  static block_cache* make() {
    // A child that another thread's fork() makes must not find the lock taken for ever.
    around_fork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); });
    return new block_cache; // never destroyed: static tensors may outlive anything
  }

  // A kept block of the class or, as what isn't touched takes no memory, of a somewhat larger one.
  block find(std::size_t wanted) noexcept {
    const std::lock_guard lock(mutex_);
    for (std::size_t c = wanted; c < classes && c <= wanted + classes_per_doubling / 2; ++c) {
      if (!free_[c]) continue;
      in_use_ += size_of(c);
      return {take(c), size_of(c)};
    }
    return {};
  }

  void count(std::size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    in_use_ += bytes;
  }

  // Keeps a block that is no longer in use; returns those that are now too many.
  free_block* keep(block b) noexcept {
    const std::lock_guard lock(mutex_);
    in_use_ -= std::min(in_use_, b.bytes); // two libraries may have a cache each, after all
    held_ += b.bytes;
    free_block*& list = free_[class_of(b.bytes)];
    list = new (b.memory) free_block{list, b.bytes};
    free_block* excess = nullptr;
    for (std::size_t c = classes; held_ > in_use_ + always_held && c-- > 0;)
      while (held_ > in_use_ + always_held && free_[c]) excess = new (take(c)) free_block{excess, size_of(c)};
    return excess;
  }

  void* take(std::size_t c) noexcept {
    free_block* const b = free_[c];
    free_[c] = b->next;
    held_ -= size_of(c);
    return b;
  }

  std::mutex mutex_;
  std::array<free_block*, classes> free_{};
  std::size_t in_use_ = 0; // bytes
  std::size_t held_ = 0;
};

} // namespace feedline::detail
