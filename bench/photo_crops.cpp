// SPDX-License-Identifier: MIT
// How near do photographs come to what the machine allows? A random part of each, resized to 224 x 224 float
// planes, mirrored or not, on two threads, in batches of 64: through feedline, and through TBB's
// parallel_pipeline with the same function; beside two bare threads that share a counter and write to memory
// of their own. What decoding less than everything gains: bare threads that decode only the part, or the
// whole photograph first. (bench_photos_libtorch has libtorch's DataLoader.)
#include <cstddef>
#include <memory>
#include <utility>

#include "photo_crops.hpp"

#ifdef FEEDLINE_WITH_TBB
#include <cstring>

#include <tbb/global_control.h>
#include <tbb/parallel_pipeline.h>
#endif

namespace fl = feedline;

namespace {

// The same with a copy of each sample.
void feedline_map_and_batch(benchmark::State& state) {
  const auto decode = [](const fl::tar_sample& sample, fl::context& context) {
    example e{{}, 0};
    load<decoding::part_smaller>(sample, context.index, chw_view(e.pixels));
    return e;
  };
  consume_pipeline(state, fl::tar_samples(photo_shards()) |
                              fl::map(decode, fl::workers{threads(state)}, fl::name{"decode"}) |
                              fl::batch(batch_size));
}

// From the start of a run until its first batch is there.
void feedline_first_batch(benchmark::State& state) {
  const auto& all = photos(state);
  if (all.empty()) return;
  const auto pipeline = crop_pipeline(threads(state));
  for (auto _ : state) {
    auto loader = pipeline.finite();
    benchmark::DoNotOptimize(loader.next());
    state.PauseTiming();
    { const auto ended = std::move(loader); }
    state.ResumeTiming();
  }
}

// The same batch on bare threads.
void bare_first_batch(benchmark::State& state) {
  const auto& all = photos(state);
  if (all.empty()) return;
  std::vector<float> batch(batch_size * numbers);
  for (auto _ : state) {
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      for (std::size_t i; (i = next.fetch_add(1)) < std::min(batch_size, all.size());)
        load<decoding::part_smaller>(
            all[i], i, fl::chw_view(std::span(batch).subspan(i * numbers, numbers), 3, side, side));
    };
    std::vector<std::jthread> pool;
    for (std::size_t i = 0; i < threads(state); ++i) pool.emplace_back(work);
  }
}

#ifdef FEEDLINE_WITH_TBB
void tbb_parallel_pipeline(benchmark::State& state) {
  const auto& all = photos(state);
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads(state));
  std::vector<float> batch(batch_size * numbers);
  for (auto _ : state) {
    std::size_t next = 0, in_batch = 0;
    using example_ptr = std::shared_ptr<example>;
    tbb::parallel_pipeline(
        4 * threads(state),
        tbb::make_filter<void, std::size_t>(tbb::filter_mode::serial_in_order,
                                            [&](tbb::flow_control& flow) {
                                              if (next == all.size()) flow.stop();
                                              return next == all.size() ? next : next++;
                                            }) &
            tbb::make_filter<std::size_t, example_ptr>(tbb::filter_mode::parallel,
                                                       [&](std::size_t i) {
                                                         auto e = std::make_shared<example>();
                                                         load<decoding::part_smaller>(all[i], i,
                                                                                      chw_view(e->pixels));
                                                         return e;
                                                       }) &
            tbb::make_filter<example_ptr, void>(tbb::filter_mode::serial_in_order, [&](const example_ptr& e) {
              std::memcpy(batch.data() + in_batch * numbers, e->pixels.data(), numbers * sizeof(float));
              if (++in_batch < batch_size) return;
              benchmark::DoNotOptimize(batch.data());
              in_batch = 0;
            }));
  }
  report_photos(state, all.size());
}

BENCHMARK(tbb_parallel_pipeline)->Apply(of_some);
#endif

BENCHMARK(bare_threads<decoding::part_smaller>)->Apply(of_some);
BENCHMARK(bare_threads<decoding::part>)->Apply(of_two);
BENCHMARK(bare_threads<decoding::whole>)->Apply(of_two);
BENCHMARK(feedline_pipeline)->Apply(of_some);
BENCHMARK(feedline_map_and_batch)->Apply(of_two);
BENCHMARK(feedline_first_batch)->Apply(of_two);
BENCHMARK(bare_first_batch)->Apply(of_two);

} // namespace
