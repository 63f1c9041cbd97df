// SPDX-License-Identifier: MIT
// What does it cost that a run can be resumed? Taking a checkpoint and turning it into bytes, with a shuffle buffer
// and with a shuffled source, which has none. Resuming at a sample, compared with a run that starts and reads up to
// it; and with a shuffle buffer, compared with a run that starts and fills it. The digest, per sample, compared with a
// loop that only adds up the indices.
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include <benchmark/benchmark.h>
#include <feedline/core/checkpoint.hpp>
#include <feedline/core/snapshot/digest.hpp>
#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/shuffle.hpp>

namespace fl = feedline;

namespace {

const std::vector<int>& numbers() {
  static const std::vector<int> all = [] {
    std::vector<int> some(20'000'000);
    std::iota(some.begin(), some.end(), 0);
    return some;
  }();
  return all;
}

constexpr auto same = [](int n) { return n; };

auto buffered(std::size_t capacity) {
  return fl::from(std::span(numbers())) | fl::map(same, fl::workers{2}) |
         fl::shuffle({.capacity = capacity}) | fl::batch(1000);
}

auto by_place() {
  return fl::from(std::span(numbers())) | fl::global_shuffle() | fl::map(same, fl::workers{2}) |
         fl::batch(1000);
}

/// The checkpoint after a number of samples.
template <class Pipeline>
fl::checkpoint checkpoint_behind(const Pipeline& p, std::int64_t samples) {
  auto loader = p.infinite();
  for (std::int64_t i = 0; i < samples; i += 1000) loader.next();
  return loader.checkpoint();
}

template <class Loader>
void take_checkpoints(benchmark::State& state, Loader& loader) {
  for (auto _ : state) benchmark::DoNotOptimize(loader.checkpoint());
  state.counters["bytes"] = static_cast<double>(loader.checkpoint().to_bytes().size());
}

void take_with_buffer(benchmark::State& state) {
  const auto capacity = static_cast<std::size_t>(state.range(0));
  auto loader = buffered(capacity).infinite();
  for (std::size_t i = 0; i < 5 * capacity; i += 1000) loader.next();
  take_checkpoints(state, loader);
}

void take_by_place(benchmark::State& state) {
  auto loader = by_place().infinite();
  for (int i = 0; i < 1000; ++i) loader.next();
  take_checkpoints(state, loader);
}

void to_bytes_with_buffer(benchmark::State& state) {
  const auto capacity = static_cast<std::size_t>(state.range(0));
  const fl::checkpoint c = checkpoint_behind(buffered(capacity), 5 * state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(c.to_bytes());
}

/// The time from the start of a run to its first batch.
template <class Pipeline>
void start(benchmark::State& state, const Pipeline& p, const std::optional<fl::checkpoint>& resume) {
  for (auto _ : state) {
    auto loader = p.infinite({.resume = resume});
    benchmark::DoNotOptimize(loader.next());
  }
}

void resume_by_place(benchmark::State& state) {
  start(state, by_place(), checkpoint_behind(by_place(), state.range(0)));
}

void read_up_to_place(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(checkpoint_behind(by_place(), state.range(0)));
}

void resume_with_buffer(benchmark::State& state) {
  const auto p = buffered(static_cast<std::size_t>(state.range(0)));
  start(state, p, fl::checkpoint::from_bytes(checkpoint_behind(p, 5 * state.range(0)).to_bytes()));
}

void fill_buffer(benchmark::State& state) {
  const auto capacity = static_cast<std::size_t>(state.range(0));
  start(state,
        fl::from(std::span(numbers())) | fl::map(same, fl::workers{2}) |
            fl::shuffle({.capacity = capacity, .min_fill = capacity}) | fl::batch(1000),
        {});
}

std::vector<fl::sample_id> ids() {
  std::vector<fl::sample_id> all(4096);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].index = i * 7919 % 4099;
  return all;
}

void digest_of_samples(benchmark::State& state) {
  const auto all = ids();
  fl::detail::running_digest digest;
  for (auto _ : state) digest.add(fl::sample_ids(all));
  benchmark::DoNotOptimize(digest.value());
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(all.size()));
}

void sum_of_indices(benchmark::State& state) {
  const auto all = ids();
  for (auto _ : state) {
    std::uint64_t sum = 0;
    for (const fl::sample_id& id : all) sum += id.index;
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(all.size()));
}

BENCHMARK(take_by_place)->Unit(benchmark::kMicrosecond);
BENCHMARK(take_with_buffer)->Arg(1'000)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMicrosecond);
BENCHMARK(to_bytes_with_buffer)->Arg(1'000)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMicrosecond);
BENCHMARK(resume_by_place)->Arg(10'000)->Arg(10'000'000)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(read_up_to_place)->Arg(10'000'000)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(resume_with_buffer)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(fill_buffer)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(digest_of_samples);
BENCHMARK(sum_of_indices);

} // namespace
