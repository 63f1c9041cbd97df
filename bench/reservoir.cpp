// SPDX-License-Identifier: MIT
// What does a reservoir of a million training frames take: a shuffle that fills up first and then gives a random frame
// for each that arrives? The memory is what filling the reservoir took, relative to frames × bytes of a frame. The
// rate is that of frames through a full reservoir. The baseline is a loop that does only what can't be saved: it
// copies a random frame out of a block and makes the new frame in its place. Both are bound by memory: a frame of a
// block that is larger than all caches is read once and written once.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include <benchmark/benchmark.h>

#include <feedline/core/random.hpp>
#include <feedline/source/generate.hpp>
#include <feedline/stage/shuffle.hpp>

#include "loaders.hpp"

namespace fl = feedline;

namespace {

/// As large as a position in the training data of a chess engine.
struct frame {
  std::array<std::byte, 8356> bytes;
};

frame made(std::uint64_t number) {
  frame f;
  std::memset(f.bytes.data(), static_cast<int>(number & 0xff), f.bytes.size());
  return f;
}

unsigned looked_at(const frame& f) {
  unsigned sum = 0;
  for (std::size_t i = 0; i < f.bytes.size(); i += 64) sum += std::to_integer<unsigned>(f.bytes[i]);
  return sum;
}

void through_shuffle(benchmark::State& state) {
  const auto frames = static_cast<std::size_t>(state.range(0));
  const std::size_t before = anonymous_bytes();
  auto loader = (fl::generate([n = std::uint64_t{0}]() mutable { return std::optional(made(n++)); }) |
                 fl::shuffle({.capacity = frames, .min_fill = frames}))
                    .infinite({.seed = 1});
  benchmark::DoNotOptimize(loader.next());
  state.counters["memory_ratio"] =
      static_cast<double>(anonymous_bytes() - before) / static_cast<double>(frames * sizeof(frame));
  for (auto _ : state) benchmark::DoNotOptimize(looked_at(*loader.next()));
  state.SetItemsProcessed(state.iterations());
}

void by_hand(benchmark::State& state) {
  std::vector<frame> block(static_cast<std::size_t>(state.range(0)), made(0));
  fl::random_generator random(1);
  std::uint64_t number = 0;
  for (auto _ : state) {
    frame& held = block[static_cast<std::size_t>(random.below(block.size()))];
    const frame taken = held;
    held = made(number++);
    benchmark::DoNotOptimize(looked_at(taken));
  }
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK(through_shuffle)->Arg(100'000)->Arg(1'000'000)->Iterations(500'000)->UseRealTime();
BENCHMARK(by_hand)->Arg(100'000)->Arg(1'000'000)->Iterations(500'000)->UseRealTime();

} // namespace
