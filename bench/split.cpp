// SPDX-License-Identifier: MIT
// What does split cost, compared with an `if` in the function of one map? Numbers pass through two workers into batches; each
// is scrambled for some rounds, in one of two ways. The limit is a loop written by hand on as many bare threads.
#include <cstdint>
#include <optional>

#include <benchmark/benchmark.h>
#include <feedline/feedline.hpp>

#include "rounds.hpp"

namespace fl = feedline;

namespace {

struct mixing {
  std::uint64_t operator()(std::uint64_t x) const {
    for (std::int64_t i = 0; i < rounds; ++i) x = (x + (x << 7)) * 0x94d049bb133111eb;
    return x;
  }

  std::int64_t rounds;
};

// In an order that a processor can't predict.
constexpr auto is_chosen = [](std::uint64_t x) { return (x * 0x9e3779b97f4a7c15 >> 63) != 0; };

struct load {
  explicit load(const benchmark::State& state)
      : if_chosen{state.range(0)}, otherwise{state.range(0)}, items(items_of(state)) {}

  auto numbers() const {
    return fl::generate([n = std::uint64_t{0}, end = items]() mutable {
      return n < end ? std::optional(n++) : std::nullopt;
    });
  }

  scrambling if_chosen;
  mixing otherwise;
  std::uint64_t items;
};

template <class Stage>
void run(benchmark::State& state, const load& l, Stage stage) {
  run_pipeline(state, l.numbers() | stage | fl::batch(batch_size));
}

void split_into_maps(benchmark::State& state) {
  const load l(state);
  run(state, l, fl::split(is_chosen, fl::map(l.if_chosen), fl::map(l.otherwise), fl::workers{workers}));
}

void if_in_map(benchmark::State& state) {
  const load l(state);
  run(state, l,
      fl::map([l](std::uint64_t x) { return is_chosen(x) ? l.if_chosen(x) : l.otherwise(x); },
              fl::workers{workers}));
}

void bare_threads(benchmark::State& state) {
  const load l(state);
  run_bare_threads(state, [&](std::uint64_t x) { return is_chosen(x) ? l.if_chosen(x) : l.otherwise(x); });
}

void of_rounds(benchmark::internal::Benchmark* b) {
  b->ArgName("rounds")
      ->Arg(8)
      ->Arg(100)
      ->Arg(1000)
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond)
      ->MeasureProcessCPUTime();
}

BENCHMARK(if_in_map)->Apply(of_rounds);
BENCHMARK(split_into_maps)->Apply(of_rounds);
BENCHMARK(bare_threads)->Apply(of_rounds);

} // namespace
