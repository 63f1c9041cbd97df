// SPDX-License-Identifier: MIT
// What does a draw of stream_shuffler cost, and how much memory does its window take? Whole passes over windows of
// 10^4 to 10^8 numbers, and draws from a window that moves by one number with each draw; compared with std::shuffle of
// a list of the whole window, which is shuffled again for each pass and can't move.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <numeric>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>
#include <feedline/window/stream_shuffler.hpp>

#include <malloc.h>

namespace fl = feedline;

namespace {

std::size_t allocated = 0, most_allocated = 0;

/// Bits of memory per number of a window: the peak since `allocated` was `before`.
double bits_each(std::size_t before, std::uint64_t numbers) {
  return 8.0 * static_cast<double>(most_allocated - before) / static_cast<double>(numbers);
}

void shuffler_passes(benchmark::State& state) {
  const auto size = static_cast<std::uint64_t>(state.range(0));
  const std::size_t before = most_allocated = allocated;
  fl::stream_shuffler shuffler(1);
  shuffler.set_range(0, size);
  for (auto _ : state) {
    std::uint64_t sum = 0;
    while (const auto number = shuffler.draw()) sum += *number;
    benchmark::DoNotOptimize(sum);
    shuffler.start_pass();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["bits_per_number"] = bits_each(before, size);
}

void shuffler_moving(benchmark::State& state) {
  const auto size = static_cast<std::uint64_t>(state.range(0));
  const std::size_t before = most_allocated = allocated;
  fl::stream_shuffler shuffler(1);
  std::uint64_t first = 0;
  shuffler.set_range(first, size);
  for (auto _ : state) {
    std::uint64_t sum = 0;
    for (int i = 0; i < 1 << 16; ++i) {
      if (shuffler.left() == 0) shuffler.start_pass();
      sum += *shuffler.draw();
      ++first;
      shuffler.set_range(first, first + size);
    }
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(state.iterations() * (1 << 16));
  state.counters["bits_per_number"] = bits_each(before, size);
}

void shuffled_list(benchmark::State& state) {
  const auto size = static_cast<std::uint64_t>(state.range(0));
  const std::size_t before = most_allocated = allocated;
  std::vector<std::uint32_t> list(static_cast<std::size_t>(size));
  std::iota(list.begin(), list.end(), std::uint32_t{0});
  std::mt19937_64 random(1);
  for (auto _ : state) {
    std::shuffle(list.begin(), list.end(), random);
    std::uint64_t sum = 0;
    for (const std::uint32_t number : list) sum += number;
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["bits_per_number"] = bits_each(before, size);
}

void sizes(benchmark::internal::Benchmark* b) {
  for (const std::int64_t size : {10'000, 100'000, 1'000'000, 10'000'000, 100'000'000}) b->Arg(size);
}

} // namespace

void* operator new(std::size_t size) {
  void* const memory = std::malloc(size);
  if (!memory) throw std::bad_alloc();
  allocated += ::malloc_usable_size(memory);
  most_allocated = std::max(most_allocated, allocated);
  return memory;
}

void operator delete(void* memory) noexcept {
  if (memory) allocated -= ::malloc_usable_size(memory);
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

BENCHMARK(shuffler_passes)->Apply(sizes);
BENCHMARK(shuffler_moving)->Apply(sizes);
BENCHMARK(shuffled_list)->Apply(sizes);
