// SPDX-License-Identifier: MIT
#pragma once
// Makes allocations of this executable and its libraries fail. Include it in one file only: it defines operator new.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <new>

#include "support/exempt_thread.hpp"
#include "support/sanitizers.hpp"

namespace feedline::test {

/// While it exists, `count` allocations fail after the first `after` ones, in any thread that isn't exempt.
class failing_allocations {
 public:
  failing_allocations(std::size_t after, std::size_t count) {
    calls_ = 0;
    first_ = after;
    end_ = count < ~std::size_t{0} - after ? after + count : ~std::size_t{0};
    is_active_ = true;
  }

  failing_allocations(const failing_allocations&) = delete;

  ~failing_allocations() { is_active_ = false; }

  /// Whether any has failed.
  static bool any_failed() noexcept { return calls_ > first_; }

  /// Counts an allocation; whether it must fail.
  static bool fails() noexcept {
    if (!is_active_ || is_exempt) return false;
    const std::size_t call = calls_.fetch_add(1);
    return call >= first_ && call < end_;
  }

  /// Null if there is no memory.
  static void* try_allocate(std::size_t bytes, std::size_t alignment) noexcept {
    if (fails()) return nullptr;
    const std::size_t size = (bytes + alignment - (bytes > 0)) / alignment * alignment; // a multiple, not 0
    return std::aligned_alloc(alignment, size);
  }

  static void* allocate(std::size_t bytes, std::size_t alignment) {
    if (void* const memory = try_allocate(bytes, alignment)) return memory;
    throw std::bad_alloc();
  }

 private:
  static inline std::atomic<bool> is_active_{false};
  static inline std::atomic<std::size_t> calls_{0}, first_{0}, end_{0};
};

/// Calls `body(exception)` with memory that ends after each number of allocations, for a moment, a while or for ever, until it
/// ends before its memory does. Only the thread that calls it, and those that are exempt, may use the test framework then.
template <class Body>
void without_memory(const Body& body) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{50}, ~std::size_t{0}})
    for (std::size_t after = 0;; after += 1 + after / 100) {
      const failing_allocations failing(after, count);
      try {
        body();
      } catch (const std::exception&) { // what it should do
      }
      if (!failing.any_failed()) break;
    }
}

} // namespace feedline::test

void* operator new(std::size_t bytes) {
  return feedline::test::failing_allocations::allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return feedline::test::failing_allocations::allocate(bytes, static_cast<std::size_t>(alignment));
}

// AddressSanitizer's own would take memory that the operators below can't free.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return feedline::test::failing_allocations::try_allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}

void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return feedline::test::failing_allocations::try_allocate(bytes, static_cast<std::size_t>(alignment));
}

void operator delete(void* memory) noexcept { std::free(memory); }

void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }

void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

#if !FEEDLINE_TEST_ASAN && !FEEDLINE_TEST_TSAN // which define it themselves
extern "C" {
void* __libc_calloc(std::size_t number, std::size_t bytes);

// What the C library needs for a thread's objects, and libcurl for its own.
void* calloc(std::size_t number, std::size_t bytes) {
  if (!feedline::test::failing_allocations::fails()) return __libc_calloc(number, bytes);
  errno = ENOMEM;
  return nullptr;
}
}
#endif
