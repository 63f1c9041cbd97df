// SPDX-License-Identifier: MIT
// What do workers inside a part of mix cost, compared with the same workers downstream of it? Half of the numbers come from a
// source whose numbers are scrambled, for some rounds each, and half from one whose numbers are ready. The limit is the
// same work on as many bare threads, which mix nothing.
#include <cstdint>
#include <optional>

#include <benchmark/benchmark.h>
#include <feedline/feedline.hpp>

#include "rounds.hpp"

namespace fl = feedline;

namespace {

/// Yields first, first + 2, …
struct every_second {
  static constexpr fl::source_traits traits{.kind = "every_second"};

  std::optional<std::uint64_t> next() {
    if (left == 0) return std::nullopt;
    --left;
    return at += 2;
  }

  std::uint64_t at, left;
};

struct load {
  explicit load(const benchmark::State& state) : scramble{state.range(0)}, items(items_of(state)) {}

  auto raw() const { return fl::from(every_second{0, items / 2}); }

  auto ready() const { return fl::from(every_second{1, items / 2}); }

  scrambling scramble;
  std::uint64_t items;
};

void workers_in_part(benchmark::State& state) {
  const load l(state);
  const auto scrambled = l.raw() | fl::map(l.scramble, fl::workers{workers});
  run_pipeline(state,
               fl::mix(fl::weighted(scrambled, 0.5), fl::weighted(l.ready(), 0.5)) | fl::batch(batch_size));
}

void workers_downstream(benchmark::State& state) {
  const load l(state);
  const auto scramble_raw = [s = l.scramble](std::uint64_t x) { return x % 2 == 0 ? s(x) : x; };
  run_pipeline(state, fl::mix(fl::weighted(l.raw(), 0.5), fl::weighted(l.ready(), 0.5)) |
                          fl::map(scramble_raw, fl::workers{workers}) | fl::batch(batch_size));
}

void bare_threads(benchmark::State& state) {
  const load l(state);
  run_bare_threads(state, [&](std::uint64_t x) { return x % 2 == 0 ? l.scramble(x) : x; });
}

void of_rounds(benchmark::internal::Benchmark* b) {
  b->ArgName("rounds")->Arg(100)->Arg(1000)->Arg(10'000);
  b->UseRealTime()->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();
}

BENCHMARK(workers_downstream)->Apply(of_rounds);
BENCHMARK(workers_in_part)->Apply(of_rounds);
BENCHMARK(bare_threads)->Apply(of_rounds);

} // namespace
