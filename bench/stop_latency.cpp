// SPDX-License-Identifier: MIT
// How long does it take to stop a loader and join its threads while 64 workers are parked?
//
// The workers wait for input that never arrives, or for room in full queues.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>
#include <feedline/feedline.hpp>

#include "loaders.hpp"

namespace fl = feedline;

namespace {

constexpr std::size_t workers = 64;

// Every worker that doesn't hold an item waits for room.
void full_queues(benchmark::State& state) {
  const auto pipeline = fl::generate([n = 0]() mutable { return std::optional(n++); }) |
                        fl::map([](int n) { return n; }, fl::workers{workers}) | fl::batch(16);
  time_ends(
      state,
      [&] {
        std::optional loader(pipeline.infinite());
        await_full_queues(*loader);
        return loader;
      },
      [](auto& loader) { loader.reset(); });
}

// The source waits for a stop, as a network source may; all workers are parked at an empty queue.
void starved_workers(benchmark::State& state) {
  struct silent_source {
    std::optional<int> next() {
      if (given++ == 0) return 1;
      std::stop_callback wake(stop, [this] { stopped.test_and_set(), stopped.notify_all(); });
      stopped.wait(false);
      return std::nullopt;
    }

    explicit silent_source(std::stop_token s) : stop(std::move(s)) {}

    silent_source(const silent_source& other) : stop(other.stop) {}

    std::stop_token stop;
    std::atomic_flag stopped;
    int given = 0;
  };

  std::stop_source stop;
  const auto start = [&] {
    stop = std::stop_source();
    const auto pipeline = silent_source(stop.get_token()) |
                          fl::map([](int n) { return n; }, fl::workers{workers}) | fl::batch(1);
    std::optional loader(pipeline.infinite({.stop = stop.get_token()}));
    static_cast<void>(loader->next());
    return loader;
  };
  time_ends(state, start, [&](auto& loader) {
    stop.request_stop();
    loader.reset();
  });
}

// The lower limit: as many bare threads, parked on one word, woken and joined.
void bare_threads(benchmark::State& state) {
  std::atomic<int> word{0};
  const auto start = [&] {
    word.store(0);
    std::atomic<std::size_t> started{0};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < workers + 2; ++i)
      threads.emplace_back([&] {
        started.fetch_add(1);
        word.wait(0);
      });
    while (started.load() < workers + 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return threads;
  };
  time_ends(state, start, [&](auto& threads) {
    word.store(1);
    word.notify_all();
    for (std::thread& t : threads) t.join();
  });
}

BENCHMARK(full_queues)->UseManualTime()->Iterations(300)->Unit(benchmark::kMillisecond);
BENCHMARK(starved_workers)->UseManualTime()->Iterations(300)->Unit(benchmark::kMillisecond);
BENCHMARK(bare_threads)->UseManualTime()->Iterations(300)->Unit(benchmark::kMillisecond);

} // namespace
