// SPDX-License-Identifier: MIT
#pragma once
// Benchmarks of numbers on each of which some rounds of work are done: the first argument of the benchmark.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

constexpr std::size_t batch_size = 1024, workers = 2;

struct scrambling {
  std::uint64_t operator()(std::uint64_t x) const {
    for (std::int64_t i = 0; i < rounds; ++i) x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9;
    return x;
  }

  std::int64_t rounds;
};

/// Numbers for about as much time, however many rounds each takes.
inline std::uint64_t items_of(const benchmark::State& state) {
  return 100'000'000 / static_cast<std::uint64_t>(state.range(0) + 10);
}

inline void report_items(benchmark::State& state) {
  state.SetItemsProcessed(static_cast<std::int64_t>(items_of(state)) * state.iterations());
}

template <class Pipeline>
void run_pipeline(benchmark::State& state, const Pipeline& batches) {
  for (auto _ : state)
    for (const auto& batch : batches.finite()) benchmark::DoNotOptimize(batch.values()[0]);
  report_items(state);
}

/// The same number of threads that share a counter and write what `work` makes of each number to memory of their own.
template <class Work>
void run_bare_threads(benchmark::State& state, Work work) {
  for (auto _ : state) {
    std::atomic<std::uint64_t> next{0};
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < workers; ++t)
      threads.emplace_back([&] {
        std::vector<std::uint64_t> batch(batch_size);
        for (std::uint64_t at; (at = next.fetch_add(batch_size)) < items_of(state);) {
          for (std::size_t i = 0; i < batch_size; ++i) batch[i] = work(at + i);
          benchmark::DoNotOptimize(batch.data());
        }
      });
  }
  report_items(state);
}
