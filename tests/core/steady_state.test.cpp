// SPDX-License-Identifier: MIT
// What a run costs when nothing new happens: no memory for items, no processor time for waiting.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <new>

#include <feedline/feedline.hpp>

#include "support/asleep.hpp"
#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/parked.hpp"
#include "support/watchdog.hpp"

namespace {

std::atomic<std::uint64_t> allocations{0};

// Not inlined: compilers warn where they see malloc's memory go to delete.
[[gnu::noinline]] void* allocate(std::size_t size, std::size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* const memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

[[gnu::noinline]] void release(void* memory) noexcept { std::free(memory); }

} // namespace

// Counts what the whole executable allocates. The other forms of new end up in these.
void* operator new(std::size_t size) { return allocate(size, alignof(std::max_align_t)); }

void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}

void* operator new(std::size_t size,
                   const std::nothrow_t&) noexcept { // a sanitizer's own form wouldn't end there
  try {
    return operator new(size);
  } catch (...) {
    return nullptr;
  }
}

void operator delete(void* memory) noexcept { release(memory); }

void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory); }

void operator delete(void* memory, std::size_t) noexcept { release(memory); }

void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }

void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

namespace fl = feedline;
using namespace feedline::test;

namespace {

const auto plus_one = [](int n) { return n + 1; };

/// Allocations for so many items, after as many to warm up.
template <class Pipeline>
std::uint64_t allocations_for(const Pipeline& p, int items) {
  auto loader = p.infinite();
  for (int i = 0; i < items; ++i) loader.next();
  const std::uint64_t before = allocations;
  for (int i = 0; i < items; ++i) loader.next();
  return allocations - before;
}

std::timespec processor_time() {
  std::timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time;
}

} // namespace

TEST_CASE("The steady state allocates nothing per item") {
  const watchdog guard("allocations");
  constexpr int items = 300'000;
  const auto source = fl::from(numbers(1'000'000));
  const auto few = items / 1000; // packets may still be made while their sizes and the workers settle
  CHECK(allocations_for(source | fl::map(plus_one) | fl::filter([](int n) { return n % 3 != 0; }), items) <
        few);
  CHECK(allocations_for(source | fl::shuffle({.capacity = 100}) | fl::map(plus_one, fl::workers{2}), items) <
        few);
  CHECK(allocations_for(source | fl::map(plus_one, fl::workers{3}, fl::unordered) |
                            fl::map(plus_one, fl::workers{2}) | fl::prefetch(10'000),
                        items) < few);
}

TEST_CASE("An idle loader uses no processor: its threads sleep and aren't woken") {
  const watchdog guard("idle");
  auto ordered = (fl::from(numbers(1000)) | fl::map(plus_one, fl::workers{16}) |
                  fl::map(plus_one, fl::workers{3}) | fl::shuffle({.capacity = 10}) | fl::prefetch(2))
                     .infinite();
  auto unordered = (fl::from(numbers(1000)) | fl::map(plus_one, fl::workers{4}, fl::unordered))
                       .infinite({.queue_capacity = 2});
  CHECK(ordered.next());
  await_all_others_asleep();
  const long switches = switches_of_others();
  const std::timespec before = processor_time();
  burn(300); // what this thread does meanwhile is known
  const std::timespec after = processor_time();
  CHECK(switches_of_others() - switches <= 20); // the watchdog's thread, and what sanitizers have
  const auto used = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1'000'000;
  CHECK(used < 300 + 60); // milliseconds: 26 threads that polled every millisecond would use more
  CHECK(ordered.next());
  CHECK(unordered.next());
}
