// SPDX-License-Identifier: MIT
// Do workers that wait (for a disk, a network) scale with their number? A stage sleeps for each item; the ideal is one
// item per worker and sleep. Small items sleep 1 ms and are batched, from a run's beginning to its end; photographs
// sleep 10 and 20 ms and are then written to their slot of a batch, in a run that has been running for a second. The
// baselines are as many bare threads, which sleep and count, or write to memory of their own.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>
#include <feedline/feedline.hpp>

namespace fl = feedline;

namespace {

constexpr std::size_t batch_size = 64;

struct waiting {
  std::size_t workers;
  std::chrono::milliseconds time; // for each item
  std::size_t batches;            // in about a second, if only sleeping takes time
  std::size_t items;

  explicit waiting(const benchmark::State& state)
      : workers(static_cast<std::size_t>(state.range(0))),
        time(state.range(1)),
        batches(
            std::max<std::size_t>(1, workers * 1000 / static_cast<std::size_t>(state.range(1)) / batch_size)),
        items(batches * batch_size) {}

  void report(benchmark::State& state) const {
    state.SetItemsProcessed(static_cast<std::int64_t>(items) * state.iterations());
    const double seconds = static_cast<double>(items) / static_cast<double>(workers) *
                           std::chrono::duration<double>(time).count();
    state.counters["of_ideal"] =
        benchmark::Counter(seconds * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  }
};

auto numbers(std::size_t end) {
  return fl::generate(
      [n = std::size_t{0}, end]() mutable { return n < end ? std::optional(n++) : std::nullopt; });
}

/// Bare threads, each with a separate sample to write to.
template <class Sample, class Work>
void run_bare(benchmark::State& state, const waiting& wait, const Work& work) {
  std::vector<Sample> memory(wait.workers);
  for (auto _ : state) {
    std::atomic<std::size_t> next{0};
    std::vector<std::jthread> threads;
    for (auto& sample : memory)
      threads.emplace_back([&] {
        for (std::size_t i; (i = next.fetch_add(1)) < wait.items;) work(i, sample);
      });
  }
  wait.report(state);
}

void feedline_workers(benchmark::State& state) {
  const waiting wait(state);
  const auto sleep = [time = wait.time](std::size_t n) {
    std::this_thread::sleep_for(time);
    return n;
  };
  const auto pipeline =
      numbers(wait.items) | fl::map(sleep, fl::workers{wait.workers}) | fl::batch(batch_size);
  for (auto _ : state)
    for (const auto& batch : pipeline.finite()) benchmark::DoNotOptimize(batch.size());
  wait.report(state);
}

void bare_threads(benchmark::State& state) {
  const waiting wait(state);
  run_bare<std::size_t>(state, wait, [&](std::size_t i, std::size_t& sample) {
    std::this_thread::sleep_for(wait.time);
    sample = i;
  });
}

struct photo {
  fl::tensor<float, 3, 224, 224> pixels;
  std::int32_t label = 0;
};

void feedline_photos(benchmark::State& state) {
  const waiting wait(state);
  const auto decode = [time = wait.time](std::size_t n, fl::batch_slot<photo>& slot) {
    std::this_thread::sleep_for(time);
    std::ranges::fill(slot.get<&photo::pixels>(), static_cast<float>(n));
    slot.get<&photo::label>() = static_cast<std::int32_t>(n);
  };
  const auto pipeline = numbers(std::numeric_limits<std::size_t>::max()) |
                        fl::batch_into<photo>(batch_size, decode, fl::workers{wait.workers});
  auto loader = pipeline.infinite();
  const auto take = [&] {
    for (std::size_t i = 0; i < wait.batches; ++i) benchmark::DoNotOptimize(loader.next().value().size());
  };
  take();
  for (auto _ : state) take();
  wait.report(state);
}

void bare_photos(benchmark::State& state) {
  const waiting wait(state);
  run_bare<photo>(state, wait, [&](std::size_t n, photo& sample) {
    std::this_thread::sleep_for(wait.time);
    std::ranges::fill(sample.pixels, static_cast<float>(n));
    sample.label = static_cast<std::int32_t>(n);
  });
}

void waits(benchmark::internal::Benchmark* b, const std::vector<std::int64_t>& workers,
           const std::vector<std::int64_t>& milliseconds) {
  b->ArgsProduct({workers, milliseconds})->ArgNames({"workers", "ms"});
  b->UseRealTime()->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();
}

void of_items(benchmark::internal::Benchmark* b) { waits(b, {1, 4, 16, 64, 256}, {1}); }

void of_photos(benchmark::internal::Benchmark* b) { waits(b, {16, 64}, {10, 20}); }

BENCHMARK(feedline_workers)->Apply(of_items);
BENCHMARK(bare_threads)->Apply(of_items);
BENCHMARK(feedline_photos)->Apply(of_photos);
BENCHMARK(bare_photos)->Apply(of_photos);

} // namespace
