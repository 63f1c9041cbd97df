// SPDX-License-Identifier: MIT
// Do workers that wait (for a disk, a network) scale with their number? A stage sleeps 1 ms per item; ideal
// is one item per worker and millisecond. The baseline are as many bare threads that sleep and count.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>
#include <feedline/feedline.hpp>

namespace fl = feedline;

namespace {

constexpr auto wait_time = std::chrono::milliseconds(1);
constexpr std::size_t items_per_worker = 500;

void report(benchmark::State& state) {
  const auto workers = static_cast<double>(state.range(0));
  const double items = workers * items_per_worker * static_cast<double>(state.iterations());
  state.SetItemsProcessed(static_cast<std::int64_t>(items));
  // Items per worker and millisecond of wall time: 1 is ideal.
  state.counters["of_ideal"] = benchmark::Counter(items / workers / 1000, benchmark::Counter::kIsRate);
}

void feedline_workers(benchmark::State& state) {
  const auto workers = static_cast<std::size_t>(state.range(0));
  const auto pipeline = fl::generate([n = std::size_t{0}, end = workers * items_per_worker]() mutable {
                          return n < end ? std::optional(n++) : std::nullopt;
                        }) |
                        fl::map(
                            [](std::size_t n) {
                              std::this_thread::sleep_for(wait_time);
                              return n;
                            },
                            fl::workers{workers}) |
                        fl::batch(64);
  for (auto _ : state)
    for (const auto& batch : pipeline.finite()) benchmark::DoNotOptimize(batch.size());
  report(state);
}

void bare_threads(benchmark::State& state) {
  const auto workers = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    std::atomic<std::size_t> next{0};
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < workers; ++i)
      threads.emplace_back([&] {
        while (next.fetch_add(1) < workers * items_per_worker) std::this_thread::sleep_for(wait_time);
      });
  }
  report(state);
}

BENCHMARK(feedline_workers)->RangeMultiplier(4)->Range(1, 256)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(bare_threads)->RangeMultiplier(4)->Range(1, 256)->UseRealTime()->Unit(benchmark::kMillisecond);

} // namespace
