// SPDX-License-Identifier: MIT How near do photographs come to what the machine allows? A random part of
// each, resized to 224 x 224 float planes, mirrored or not, on two threads, in batches of 64: through
// feedline, and through TBB's parallel_pipeline with the same function; beside two bare threads that share a
// counter and write to memory of their own. And what decoding less than everything gains: bare threads that
// decode only the part, or the whole photograph first. FEEDLINE_BENCH_THREADS changes the number of threads.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "photos.hpp"

#ifdef FEEDLINE_WITH_TBB
#include <tbb/global_control.h>
#include <tbb/parallel_pipeline.h>
#endif

namespace fl = feedline;

namespace {

constexpr std::size_t side = 224;
constexpr std::size_t numbers = 3 * side * side;
constexpr std::size_t batch_size = 64;

std::size_t threads(const benchmark::State& state) { return static_cast<std::size_t>(state.range(0)); }

enum class decoding { part_smaller, part, whole };

/// The same part of a photograph in every benchmark.
template <decoding How>
void load(const fl::tar_sample& sample, fl::random_generator random, const fl::image_view<float>& pixels) {
  const auto part = [&](std::size_t height, std::size_t width) {
    return fl::random_resized_crop{}(height, width, random);
  };
  const fl::resize_options how{.mirrored = random.chance(0.5), .normalization = fl::imagenet_normalization};
  if constexpr (How == decoding::whole) {
    const image all = fl::decode_jpeg(sample["jpg"]);
    fl::resize(fl::hwc_view(all), part(all.shape()[0], all.shape()[1]), pixels, how);
  } else {
    fl::decode_jpeg_crop(sample["jpg"], part, pixels, how, {.decode_smaller = How == decoding::part_smaller});
  }
}

fl::random_generator random_of(std::size_t index) { return fl::random_generator(fl::detail::key(index)); }

template <decoding How>
void bare_threads(benchmark::State& state) {
  const auto& all = photos(state);
  std::vector<fl::tensor<float>> memory;
  for (std::size_t i = 0; i < threads(state); ++i) memory.emplace_back(fl::shape{batch_size, numbers});
  for (auto _ : state) {
    std::atomic<std::size_t> next{0};
    const auto work = [&](fl::tensor<float>& batch) {
      for (std::size_t i, n = 0; (i = next.fetch_add(1)) < all.size(); ++n)
        load<How>(all[i], random_of(i), fl::chw_view(batch.at(n % batch_size), 3, side, side));
    };
    std::vector<std::jthread> pool;
    for (auto& batch : memory) pool.emplace_back(work, std::ref(batch));
  }
  report_photos(state, all.size());
}

struct example {
  fl::tensor<float, 3, side, side> pixels;
  std::int32_t label;
};

auto crop_pipeline(std::size_t threads) {
  const auto decode = [](const fl::tar_sample& sample, fl::batch_slot<example>& slot, fl::context& context) {
    load<decoding::part_smaller>(sample, random_of(context.index),
                                 fl::chw_view(slot.get<&example::pixels>(), 3, side, side));
    slot.get<&example::label>() = 0;
  };
  return fl::tar_samples(photo_shards()) |
         fl::batch_into<example>(batch_size, decode, fl::workers{threads}, fl::name{"decode"});
}

// The same with a copy of each sample.
auto copying_pipeline(std::size_t threads) {
  const auto decode = [](const fl::tar_sample& sample, fl::context& context) {
    example e{{}, 0};
    load<decoding::part_smaller>(sample, random_of(context.index), chw_view(e.pixels));
    return e;
  };
  return fl::tar_samples(photo_shards()) | fl::map(decode, fl::workers{threads}, fl::name{"decode"}) |
         fl::batch(batch_size);
}

template <class Pipeline>
void consume(benchmark::State& state, const Pipeline& pipeline) {
  const auto& all = photos(state);
  if (all.empty()) return;
  // As in a training that has been going on for a while. (first_batch has the beginning.)
  auto loader = pipeline.infinite();
  const std::size_t batches = std::max<std::size_t>(1, all.size() / batch_size);
  const auto take = [&] {
    for (std::size_t i = 0; i < batches; ++i)
      benchmark::DoNotOptimize(loader.next()->template get<&example::pixels>().data());
  };
  take();
  take();
  for (auto _ : state) take();
  report_photos(state, batches * batch_size);
}

void feedline_pipeline(benchmark::State& state) { consume(state, crop_pipeline(threads(state))); }

void feedline_map_and_batch(benchmark::State& state) { consume(state, copying_pipeline(threads(state))); }

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
            all[i], random_of(i),
            fl::chw_view(std::span(batch).subspan(i * numbers, numbers), 3, side, side));
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
                                                         load<decoding::part_smaller>(all[i], random_of(i),
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

#endif

// Items a second, and processor time, of so many threads.
void of_threads(benchmark::internal::Benchmark* b, const std::vector<int>& threads) {
  for (const int count : threads) b->Arg(count);
  b->UseRealTime()->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();
}

void of_two(benchmark::internal::Benchmark* b) { of_threads(b, {2}); }

void of_some(benchmark::internal::Benchmark* b) { of_threads(b, {1, 2, 4, 8}); }

#ifdef FEEDLINE_WITH_TBB
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
