// SPDX-License-Identifier: MIT
// What does it cost to watch a run that decodes photographs? The same pipeline alone, with a recorder of 10 intervals per
// second, with a trace, and with a watchdog.
#include <chrono>
#include <filesystem>
#include <string>

#include <feedline/telemetry.hpp>

#include "photos.hpp"

namespace fl = feedline;

namespace {

auto photo_batches() {
  return fl::tar_samples(photo_shards()) | fl::map(decode, fl::workers{2}) | fl::batch(32, fl::as_list);
}

template <class Loader>
void consume(Loader& loader) {
  for (const auto& batch : loader) benchmark::DoNotOptimize(batch.values().front().data());
}

void alone(benchmark::State& state) {
  const auto& all = photos(state);
  if (all.empty()) return;
  for (auto _ : state) {
    auto loader = photo_batches().finite();
    consume(loader);
  }
  report_photos(state, all.size());
}

void with_recorder(benchmark::State& state) {
  const auto& all = photos(state);
  if (all.empty()) return;
  for (auto _ : state) {
    auto loader = photo_batches().finite();
    const fl::recorder recorder(loader);
    consume(loader);
  }
  report_photos(state, all.size());
}

void with_trace(benchmark::State& state) {
  const auto& all = photos(state);
  if (all.empty()) return;
  const std::string path = (std::filesystem::temp_directory_path() / "feedline_bench.trace.json").string();
  for (auto _ : state) {
    auto loader = photo_batches().finite();
    fl::trace trace(loader, path);
    consume(loader);
    state.PauseTiming(); // writing the file
    trace.write();
    state.ResumeTiming();
  }
  std::filesystem::remove(path);
  report_photos(state, all.size());
}

void with_watchdog(benchmark::State& state) {
  const auto& all = photos(state);
  if (all.empty()) return;
  for (auto _ : state) {
    auto loader = photo_batches().finite({.watchdog = std::chrono::seconds(30)});
    consume(loader);
  }
  report_photos(state, all.size());
}

BENCHMARK(alone)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(with_recorder)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(with_trace)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(with_watchdog)->UseRealTime()->Unit(benchmark::kMillisecond);

} // namespace
