// SPDX-License-Identifier: MIT
#pragma once
// Counts the allocations of this executable and its libraries. Include it in one file only: it defines the
// functions that they call.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace feedline::test {

inline std::atomic<std::uint64_t> allocations{0};
inline std::atomic<std::uint64_t> allocated_bytes{0}; ///< in all, also those that were freed

inline void count_allocation(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  allocated_bytes.fetch_add(size, std::memory_order_relaxed);
}

} // namespace feedline::test

// operator new also calls these.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  feedline::test::count_allocation(bytes);
  return __libc_malloc(bytes);
}

void* calloc(std::size_t number, std::size_t bytes) {
  feedline::test::count_allocation(number * bytes);
  return __libc_calloc(number, bytes);
}

void* realloc(void* memory, std::size_t bytes) {
  feedline::test::count_allocation(bytes);
  return __libc_realloc(memory, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  feedline::test::count_allocation(bytes);
  return __libc_memalign(alignment, bytes);
}
}
