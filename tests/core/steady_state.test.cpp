// SPDX-License-Identifier: MIT
// The cost of a run in its steady state: no memory for items, no processor time for waiting. And its
// behaviour when memory runs out.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <new>
#include <ranges>
#include <string>
#include <vector>

#include <malloc.h>

#include <feedline/cache.hpp>
#include <feedline/feedline.hpp>

#include "support/asleep.hpp"
#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/parked.hpp"
#include "support/watchdog.hpp"

namespace {

std::atomic<std::uint64_t> allocations{0};
std::atomic<std::size_t> bytes_in_use{0};

/// Simulates running out of memory: once armed, the allocation with this number fails, or all from it on.
std::atomic<bool> is_short{false}, stays_short{false};
std::atomic<std::int64_t> allocations_left{0};
std::atomic<std::size_t> too_large{~std::size_t{0}}; // allocations of at least this many bytes fail

bool runs_out(std::size_t size) {
  if (size >= too_large) return true;
  if (!is_short) return false;
  const std::int64_t left = allocations_left.fetch_sub(1);
  return left == 0 || (left < 0 && stays_short);
}

/// The bytes of a block. Behind a block that is aligned to huge pages, malloc counts memory that is never used: less than a
/// huge page, and another amount in each process.
std::size_t bytes_of(void* memory) {
  constexpr std::size_t huge_page = std::size_t{2} << 20;
  const std::size_t usable = ::malloc_usable_size(memory);
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(memory) % huge_page == 0;
  return is_aligned ? std::max(usable - usable % huge_page, std::min(usable, huge_page)) : usable;
}

// Not inlined: compilers warn if they see malloc's memory passed to delete.
[[gnu::noinline]] void* allocate(std::size_t size, std::size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (runs_out(size)) throw std::bad_alloc();
  void* const memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  bytes_in_use.fetch_add(bytes_of(memory));
  return memory;
}

[[gnu::noinline]] void release(void* memory) noexcept {
  bytes_in_use.fetch_sub(bytes_of(memory));
  std::free(memory);
}

} // namespace

// Counts the allocations of the whole executable. The other forms of new call these.
void* operator new(std::size_t size) { return allocate(size, alignof(std::max_align_t)); }

void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}

void* operator new(std::size_t size,
                   const std::nothrow_t&) noexcept { // a sanitizer's form wouldn't call this one
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

/// A large item.
struct page {
  int number;
  std::array<int, 2500> rest;
};

const auto to_page = [](int n) { return page{n, {}}; };
const auto to_number = [](const page& p) { return p.number; };

/// The allocations for that many items, after as many to warm up. By then all queues have been full.
template <class Pipeline>
std::uint64_t allocations_for(const Pipeline& p, int items) {
  auto loader = p.infinite();
  for (int i = 0; i < items; ++i) loader.next();
  await_all_others_asleep();
  const std::uint64_t before = allocations;
  for (int i = 0; i < items; ++i) loader.next();
  return allocations - before;
}

/// Runs a pipeline repeatedly, allowing one more allocation each time before memory runs out, until it runs
/// to its end. Returns how many of the runs yielded another number of items without an error. Samples
/// reported as skipped count as yielded.
template <class Pipeline>
int wrong_runs(const Pipeline& p, bool for_good, fl::on_error how = fl::on_error::fail) {
  const auto count = [&] {
    std::size_t items = 0;
    auto loader = p.finite({.seed = 3, .on_error = how});
    while (auto batch = loader.next()) items += batch->size();
    is_short = false;
    for (const fl::failure& f : loader.failures()) {
      int batch = 0;
      items +=
          std::sscanf(f.message.c_str(), "all %d samples", &batch) == 1 ? static_cast<std::size_t>(batch) : 1;
    }
    return items;
  };
  const std::size_t all = count();
  stays_short = for_good;
  int wrong = 0;
  bool has_failed = true;
  for (std::int64_t first = 0; has_failed; ++first) {
    allocations_left = first;
    is_short = true;
    std::size_t items = all;
    try {
      items = count();
    } catch (const std::exception&) { // reports that memory ran out
    }
    is_short = false;
    has_failed = allocations_left < 0;
    wrong += items != all;
  }
  return wrong;
}

struct taken_and_planned {
  std::size_t taken;
  std::size_t planned;
};

/// The most memory that a run takes, with all its queues full several times, and its plan. Without the free blocks that the
/// process keeps: a run that gives some back, and then takes others of another size, doesn't use both.
template <class Pipeline>
taken_and_planned memory_of(const Pipeline& p, int items, std::size_t queue_capacity = 0) {
  const auto bytes_taken = [] {
    const std::size_t all = bytes_in_use; // first: what is freed meanwhile mustn't count as taken
    return all - fl::detail::block_cache::of_process().held();
  };
  const std::size_t before = bytes_taken();
  std::size_t most = before;
  auto loader = p.infinite({.queue_capacity = queue_capacity});
  for (int i = 0; i < items; ++i) {
    if (i % (items / 4) == 0) await_all_others_asleep();
    most = std::max(most, bytes_taken());
    loader.next();
  }
  return {most - before, loader.memory().bytes().value_or(0)};
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
  const auto filter = fl::filter([](int n) { return n % 3 != 0; });
  CHECK(allocations_for(source | fl::map(plus_one) | filter, items) < few);
  CHECK(allocations_for(source | fl::shuffle({.capacity = 100}) | fl::map(plus_one, fl::workers{2}), items) <
        few);
  CHECK(allocations_for(source | fl::map(to_page) | fl::shuffle({.capacity = 100}) |
                            fl::map(to_number, fl::workers{2}) | fl::map(to_page) | fl::prefetch(100),
                        items / 10) < few);
  CHECK(allocations_for(source | fl::map(plus_one, fl::workers{3}, fl::unordered) |
                            fl::map(plus_one, fl::workers{2}) | fl::prefetch(10'000),
                        items) < few);
}

TEST_CASE("The steady state allocates nothing per batch, also if a checkpoint lists samples") {
  const watchdog guard("allocations of batches");
  constexpr int batches = 5'000;
  const auto source = fl::from(count_to(100'000));
  const auto five = [](int n) { return std::views::iota(n, n + 5); };
  const auto length = [](int n) { return static_cast<unsigned>(n % 50); };
  const auto buckets = fl::bucket_batch({.boundaries = {10, 20, 30}, .batch_size = 16}, length);
  CHECK(allocations_for(source | fl::flat_map(five) | fl::batch(32), batches) < batches / 50);
  CHECK(allocations_for(source | buckets, batches) < batches / 50);
  CHECK(allocations_for(source | fl::shuffle({.capacity = 100}) | fl::flat_map(five) | buckets |
                            fl::prefetch(4),
                        batches) < batches / 50);
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
  burn(300); // the work of this thread is known
  const std::timespec after = processor_time();
  CHECK(switches_of_others() - switches <= 20); // the watchdog's thread, and those of sanitizers
  const auto used = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1'000'000;
  CHECK(used < 300 + 60); // milliseconds: 26 threads that polled every millisecond would use more
  CHECK(ordered.next());
  CHECK(unordered.next());
}

TEST_CASE("A run that runs out of memory ends with an error") {
  const watchdog guard("no memory");
  const auto source = fl::from(numbers(60));
  const auto many = fl::from(numbers(1000)); // whose packets grow
  const auto map = fl::map(plus_one, fl::workers{2});
  const auto from_each = [](int count) { return [count](int n) { return std::views::iota(n, n + count); }; };
  const auto into = fl::batch_into<int>(
      7, [](int n, fl::batch_slot<int>& row) { row.value() = n; }, fl::workers{3});
  for (const auto how : {fl::on_error::fail, fl::on_error::skip}) {
    INFO((how == fl::on_error::skip ? "skip" : "fail"));
    CHECK(wrong_runs(source | fl::batch(7), false, how) == 0);
    CHECK(wrong_runs(many | fl::batch(7), false, how) == 0);
    CHECK(
        wrong_runs(source | map | fl::flat_map(from_each(1), fl::workers{2}) | fl::batch(7) | fl::prefetch(2),
                   false, how) == 0);
    CHECK(wrong_runs(source | into, false, how) == 0);
  }
  for (const bool for_good : {false, true}) {
    CHECK(wrong_runs(many | map | fl::flat_map(from_each(5), fl::workers{2}) | fl::batch(7) | fl::prefetch(2),
                     for_good) == 0);
    CHECK(wrong_runs(source | fl::shuffle({.capacity = 16}) | fl::batch(8), for_good) == 0);
    CHECK(wrong_runs(source | fl::map(plus_one, fl::workers{2}) | fl::shuffle({.capacity = 4}) | fl::batch(8),
                     for_good) == 0);
    CHECK(wrong_runs(source | fl::map(to_page) | fl::shuffle({.capacity = 4}) |
                         fl::map(to_number, fl::workers{2}) | fl::map(to_page) | fl::prefetch(1) |
                         fl::map(to_number) | fl::batch(8),
                     for_good) == 0);
    CHECK(wrong_runs(fl::from(count_to(60)) | fl::global_shuffle() | fl::map(plus_one, fl::workers{2}) |
                         fl::cache({.memory_bytes = 10'000}) | fl::batch(8),
                     for_good) == 0);
  }
}

TEST_CASE("A queue whose items find no memory is named by the stages before it") {
  const watchdog guard("no memory for a queue");

  struct block {
    std::array<int, 1000> values;
  };

  const auto parts = fl::flat_map([](int) { return std::vector<block>(1); }, fl::name{"parts"});

  const struct limit {
    limit() { too_large = 200'000; } // 50 blocks

    ~limit() { too_large = ~std::size_t{0}; }
  } no_larger;

  auto loader = (fl::from(count_to(10)) | fl::map(plus_one, fl::workers{2}) | parts | fl::enumerate() |
                 fl::prefetch(65'536))
                    .finite();
  for (int times = 0; times < 2; ++times) {
    try {
      loader.next();
      FAIL("there was memory");
    } catch (const fl::pipeline_error& error) {
      CHECK(error.failure().stage == "flat_map `parts` + enumerate");
      CHECK(error.cause<std::bad_alloc>());
      CHECK(std::string(error.what()).find("set a memory_budget to limit what the run holds") !=
            std::string::npos);
    }
  }
}

TEST_CASE("A run takes no more than its plan, however small its items are") {
  const watchdog guard("small items");
  const auto source = fl::from(count_to(200'000));
  const auto check = [](const char* pipeline, const taken_and_planned& memory) {
    INFO(pipeline << " took " << memory.taken << " and planned " << memory.planned);
    CHECK(memory.taken <= memory.planned);
  };
  const auto map = fl::map(plus_one);
  const auto shuffle = fl::shuffle({.capacity = 5000});
  const auto parallel = fl::map(plus_one, fl::workers{2}), wide = fl::map(plus_one, fl::workers{8});
  check("map | prefetch", memory_of(source | map | fl::prefetch(1000), 5000));
  check("shuffle | prefetch", memory_of(source | shuffle | fl::prefetch(1000), 50'000));
  for (const std::size_t capacity : {1u, 100u, 5000u}) {
    CAPTURE(capacity);
    check("shuffle | workers", memory_of(source | shuffle | parallel, 50'000, capacity));
    check("shuffle | filter | workers",
          memory_of(source | shuffle | fl::filter([](int n) { return n % 64 == 0; }) | parallel, 1000,
                    capacity));
    check("workers | workers", memory_of(source | wide | wide, 10'000, capacity));
  }
  const auto length = [](int n) { return static_cast<unsigned>(n % 30); };
  check("shuffle | batch", memory_of(source | shuffle | fl::batch(64), 500));
  check("bucket_batch",
        memory_of(source | fl::bucket_batch({.boundaries = {10, 20}, .batch_size = 16}, length), 500));
}

TEST_CASE("A run of large items takes no more than its plan") {
  const watchdog guard("large items");
  constexpr std::size_t kept_by_threads =
      2 * (std::size_t{64} << 10); // small blocks of a size that each has used
  const auto source = fl::from(count_to(20'000)) | fl::map(to_page);
  for (const std::size_t capacity : {1u, 7u}) {
    const taken_and_planned memory =
        memory_of(source | fl::shuffle({.capacity = 40 * capacity}) | fl::map(to_number, fl::workers{2}),
                  20'000, capacity);
    INFO(capacity << ": took " << memory.taken << " and planned " << memory.planned);
    CHECK(memory.taken <= memory.planned + kept_by_threads);
    const taken_and_planned queued = memory_of(source | fl::prefetch(30 * capacity), 5000, capacity);
    INFO("prefetched " << capacity << ": took " << queued.taken << " and planned " << queued.planned);
    CHECK(queued.taken <= queued.planned + kept_by_threads);
  }

  struct volume {
    int number;
    std::array<int, 65'800> rest;
  };

  const auto check = [](const taken_and_planned& memory) {
    INFO("took " << memory.taken << " and planned " << memory.planned);
    CHECK(memory.taken <= memory.planned);
  };
  const auto to_volume = [](int n) { return volume{n, {}}; };
  const auto volume_number = [](const volume& v) { return v.number; };
  check(memory_of(fl::from(count_to(1000)) | fl::map(to_volume) | fl::shuffle({.capacity = 30}) |
                      fl::map(volume_number, fl::workers{2}),
                  1000, 20));
  check(memory_of(source | fl::shuffle({.capacity = 3}) | fl::map(to_number), 1000,
                  20)); // no queue has large items
}

TEST_CASE("A run of large items gives their memory back when it ends") {
  const watchdog guard("memory given back");
  const std::size_t before = bytes_in_use;
  for (int runs = 0; runs < 2; ++runs) {
    auto loader = (fl::from(count_to(30'000)) | fl::map(to_page) |
                   fl::shuffle({.capacity = 20'000, .min_fill = 20'000}))
                      .finite();
    CHECK(loader.next());
    CHECK(bytes_in_use > before + 200'000'000);
    if (runs == 1) loader.stop();
    else
      while (loader.next()) continue;
    await_all_others_asleep();
  }
  // 64 MB are kept for the next run; the C library may take twice as much for an aligned block.
  CHECK(bytes_in_use < before + 140'000'000);
}

TEST_CASE("The plan includes the items of a sample that a cache gathers") {
  const watchdog guard("gathered");
  using picture = fl::tensor<float, 64, 64>;
  const auto frames = [](int n) {
    return std::views::iota(0, 300) | std::views::transform([n](int k) {
             picture p;
             std::fill(p.begin(), p.end(), static_cast<float>(n + k));
             return p;
           });
  };
  const auto source = fl::from(count_to(100)) | fl::flat_map(frames, fl::workers{4});
  const auto kept = source | fl::cache({.memory_bytes = 1000, .items_per_sample = 300}) | fl::batch(4);
  const taken_and_planned memory = memory_of(kept, 300);
  INFO("took " << memory.taken << " and planned " << memory.planned);
  CHECK(memory.taken <= memory.planned);
  CHECK(memory.taken > 4 * 300 * sizeof(float) * 64 * 64 / 2);
}
