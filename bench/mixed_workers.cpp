// SPDX-License-Identifier: MIT
// What do workers inside a part of mix cost, compared with the same workers downstream of it? Half of the numbers come from a
// source whose numbers are scrambled, for some rounds each, and half from one whose numbers are ready. The limit is the
// same work on as many bare threads, which mix nothing.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include <benchmark/benchmark.h>
#include <feedline/feedline.hpp>

namespace fl = feedline;

namespace {

constexpr std::size_t batch_size = 1024, workers = 2;

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

struct scrambling {
  std::uint64_t operator()(std::uint64_t x) const {
    for (std::int64_t i = 0; i < rounds; ++i) x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9;
    return x;
  }

  std::int64_t rounds;
};

struct load {
  explicit load(const benchmark::State& state)
      : scramble{state.range(0)}, items(100'000'000 / static_cast<std::uint64_t>(state.range(0) + 10)) {}

  auto raw() const { return fl::from(every_second{0, items / 2}); }

  auto ready() const { return fl::from(every_second{1, items / 2}); }

  scrambling scramble;
  std::uint64_t items;
};

template <class Pipeline>
void run(benchmark::State& state, const load& l, const Pipeline& pipeline) {
  for (auto _ : state)
    for (const auto& batch : pipeline.finite()) benchmark::DoNotOptimize(batch.values()[0]);
  state.SetItemsProcessed(static_cast<std::int64_t>(l.items) * state.iterations());
}

void workers_in_part(benchmark::State& state) {
  const load l(state);
  const auto scrambled = l.raw() | fl::map(l.scramble, fl::workers{workers});
  run(state, l, fl::mix(fl::weighted(scrambled, 0.5), fl::weighted(l.ready(), 0.5)) | fl::batch(batch_size));
}

void workers_downstream(benchmark::State& state) {
  const load l(state);
  const auto scramble_raw = [s = l.scramble](std::uint64_t x) { return x % 2 == 0 ? s(x) : x; };
  run(state, l,
      fl::mix(fl::weighted(l.raw(), 0.5), fl::weighted(l.ready(), 0.5)) |
          fl::map(scramble_raw, fl::workers{workers}) | fl::batch(batch_size));
}

void bare_threads(benchmark::State& state) {
  const load l(state);
  for (auto _ : state) {
    std::atomic<std::uint64_t> next{0};
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < workers; ++t)
      threads.emplace_back([&] {
        std::vector<std::uint64_t> batch(batch_size);
        for (std::uint64_t at; (at = next.fetch_add(batch_size)) < l.items;) {
          for (std::size_t i = 0; i < batch_size; ++i) batch[i] = i % 2 == 0 ? l.scramble(at + i) : at + i;
          benchmark::DoNotOptimize(batch.data());
        }
      });
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(l.items) * state.iterations());
}

void of_rounds(benchmark::internal::Benchmark* b) {
  b->ArgName("rounds")->Arg(100)->Arg(1000)->Arg(10'000);
  b->UseRealTime()->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();
}

BENCHMARK(workers_downstream)->Apply(of_rounds);
BENCHMARK(workers_in_part)->Apply(of_rounds);
BENCHMARK(bare_threads)->Apply(of_rounds);

} // namespace
