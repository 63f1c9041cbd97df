// SPDX-License-Identifier: MIT
// What does an order over a whole data set cost? A place of a permutation, compared with a lookup in a shuffled list
// of all places; finding the samples of TAR shards (of FEEDLINE_BENCH_PHOTOS) by a pass over their headers, compared
// with reading all bytes and with an index that was kept; and samples that workers take themselves, compared with a
// thread that gives them to the workers through a queue.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <feedline/core/permutation.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/tar_index.hpp>
#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>

namespace fl = feedline;

namespace {

constexpr std::uint64_t places_per_round = 1 << 16;

/// Looks up one position after another in an order.
template <class Order>
void look_up_places(benchmark::State& state, const Order& order) {
  std::uint64_t reached = 0;
  for (auto _ : state) {
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < places_per_round; ++i) {
      sum += order[reached];
      reached = reached + 1 == order.size() ? 0 : reached + 1;
    }
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(places_per_round));
}

void permuted_places(benchmark::State& state) {
  look_up_places(state, fl::permutation(static_cast<std::uint64_t>(state.range(0)), 1));
}

void listed_places(benchmark::State& state) {
  std::vector<std::uint64_t> order(static_cast<std::size_t>(state.range(0)));
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
  look_up_places(state, order);
}

/// Calls `f` with each shard; reports the shards' bytes per second.
template <class F>
void with_each_shard(benchmark::State& state, F f) {
  const char* const pattern = std::getenv("FEEDLINE_BENCH_PHOTOS");
  if (!pattern) return state.SkipWithError("FEEDLINE_BENCH_PHOTOS names no shards");
  const fl::detail::file_order files(fl::file_patterns{pattern}, "bench_global_shuffle");
  std::uint64_t bytes = 0;
  for (auto _ : state)
    for (const std::string& name : files.names()) {
      f(name);
      bytes += std::filesystem::file_size(name);
    }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
}

void scan_headers(benchmark::State& state) {
  with_each_shard(state, [](const std::string& name) {
    benchmark::DoNotOptimize(fl::detail::scan_tar(name, {}).begins.size());
  });
}

void read_everything(benchmark::State& state) {
  with_each_shard(state, [](const std::string& name) {
    const fl::detail::mapped_file file(name);
    std::uint64_t sum = 0;
    for (const std::byte b : file.bytes()) sum += static_cast<std::uint64_t>(b);
    benchmark::DoNotOptimize(sum);
  });
}

void read_kept_index(benchmark::State& state) {
  const std::string kept = (std::filesystem::temp_directory_path() / "feedline-bench.index").string();
  with_each_shard(state, [&](const std::string& name) {
    if (!std::filesystem::exists(kept)) fl::detail::write_tar_index(kept, fl::detail::scan_tar(name, {}));
    benchmark::DoNotOptimize(fl::detail::read_tar_index(kept)->begins.size());
  });
  std::filesystem::remove(kept);
}

constexpr std::size_t samples = 1 << 20;

// Takes about as long as a lookup in a small table, or a hundred times as long.
struct work {
  int rounds;

  std::uint64_t operator()(std::uint64_t x) const {
    for (int i = 0; i < rounds; ++i) x = fl::detail::mix(x);
    return x;
  }
};

auto shuffled_numbers() {
  std::vector<std::uint64_t> numbers(samples);
  std::iota(numbers.begin(), numbers.end(), std::uint64_t{0});
  return fl::from(std::move(numbers)) | fl::global_shuffle();
}

template <class Pipeline>
void run_through(benchmark::State& state, const Pipeline& pipeline) {
  for (auto _ : state)
    for (const auto& batch : pipeline.finite()) benchmark::DoNotOptimize(batch.values().data());
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(samples));
}

void workers_take_places(benchmark::State& state) {
  run_through(state, shuffled_numbers() | fl::map(work{static_cast<int>(state.range(0))}, fl::workers{2}) |
                         fl::batch(1024));
}

void thread_and_queue(benchmark::State& state) {
  run_through(state, shuffled_numbers() | fl::prefetch(1 << 18) |
                         fl::map(work{static_cast<int>(state.range(0))}, fl::workers{2}) | fl::batch(1024));
}

BENCHMARK(workers_take_places)->Arg(1)->Arg(100)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(thread_and_queue)->Arg(1)->Arg(100)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(permuted_places)->Arg(1000)->Arg(1'000'000)->Arg(100'000'000)->Arg(std::int64_t{1} << 40);
BENCHMARK(listed_places)->Arg(1000)->Arg(1'000'000)->Arg(100'000'000);
BENCHMARK(scan_headers)->Unit(benchmark::kMillisecond);
BENCHMARK(read_kept_index)->Unit(benchmark::kMillisecond);
BENCHMARK(read_everything)->Unit(benchmark::kMillisecond);

} // namespace
