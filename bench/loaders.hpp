// SPDX-License-Identifier: MIT
#pragma once
// What benchmarks of loaders measure in addition to speed: the time to end a loader, and its memory.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>

/// Measures the time of end() on the result of start().
template <class Start, class End>
void time_ends(benchmark::State& state, Start start, End end) {
  std::vector<double> times;
  for (auto _ : state) {
    auto running = start();
    const auto begin = std::chrono::steady_clock::now();
    end(running);
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    state.SetIterationTime(times.back());
  }
  std::sort(times.begin(), times.end());
  state.counters["p50_ms"] = times[times.size() / 2] * 1e3;
  state.counters["p99_ms"] = times[(times.size() * 99) / 100] * 1e3;
}

/// Waits until all queues of a loader without a consumer are full.
template <class Loader>
void await_full_queues(Loader& loader) {
  for (bool moves = true; moves;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const auto recent = loader.metrics().recent;
    moves = std::any_of(recent.queues.begin(), recent.queues.end(), [](const auto& q) { return q.put > 0; });
  }
}

/// The bytes of this process that are in memory and don't come from a file.
inline std::size_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) return 1024 * std::stoul(line.substr(8));
  return 0;
}
