// SPDX-License-Identifier: MIT
#pragma once
// The common part of benchmarks of photographs for training: a random part of each photograph is resized to
// 224 x 224 float planes, randomly flipped and normalised, in batches of 64.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "photos.hpp"

constexpr std::size_t side = 224;
constexpr std::size_t numbers = 3 * side * side;
constexpr std::size_t batch_size = 64;

inline std::size_t threads(const benchmark::State& state) { return static_cast<std::size_t>(state.range(0)); }

enum class decoding { part_smaller, part, whole };

/// Draws the same part of a photograph in every benchmark; the next draw of `random` decides about the flip.
inline auto choose_part(feedline::random_generator& random) {
  return [&random](std::size_t height, std::size_t width) {
    return feedline::random_resized_crop{}(height, width, random);
  };
}

inline feedline::random_generator random_of(std::size_t index) {
  return feedline::random_generator(feedline::detail::key(index));
}

template <decoding How>
void load(std::span<const std::byte> file, std::size_t index, const feedline::image_view<float>& pixels) {
  namespace fl = feedline;
  auto random = random_of(index);
  const bool mirrored = random.chance(0.5);
  const auto part = choose_part(random);
  const fl::resize_options how{.horizontal_flip = mirrored, .normalization = fl::imagenet_normalization};
  if constexpr (How == decoding::whole) {
    const image all = fl::decode_jpeg(file);
    fl::resize(fl::hwc_view(all), part(all.shape()[0], all.shape()[1]), pixels, how);
  } else {
    fl::decode_jpeg_crop(file, part, pixels, how, {.scaled_decoding = How == decoding::part_smaller});
  }
}

template <decoding How>
void load(const feedline::tar_sample& sample, std::size_t index, const feedline::image_view<float>& pixels) {
  load<How>(sample["jpg"], index, pixels);
}

/// Threads that share a counter and write to separate memory. `load_one(file, index, pixels)` loads a file.
template <class File, class Load>
void load_on_bare_threads(benchmark::State& state, const std::vector<File>& all, Load load_one) {
  std::vector<feedline::tensor<float>> memory;
  for (std::size_t i = 0; i < threads(state); ++i) memory.emplace_back(feedline::shape{batch_size, numbers});
  const auto load_all = [&] {
    std::atomic<std::size_t> next{0};
    const auto work = [&](feedline::tensor<float>& batch) {
      for (std::size_t i, n = 0; (i = next.fetch_add(1)) < all.size(); ++n)
        load_one(all[i], i, feedline::chw_view(batch.at(n % batch_size), 3, side, side));
    };
    std::vector<std::jthread> pool;
    for (auto& batch : memory) pool.emplace_back(work, std::ref(batch));
  };
  load_all(); // touches the memory for the first time
  for (auto _ : state) load_all();
  report_photos(state, all.size());
}

/// The upper limit.
template <decoding How, photo_set Set = photo_set::given>
void bare_threads(benchmark::State& state) {
  load_on_bare_threads(state, photos<Set>(state),
                       [](const feedline::tar_sample& sample, std::size_t index, const auto& pixels) {
                         load<How>(sample, index, pixels);
                       });
}

struct example {
  feedline::tensor<float, 3, side, side> pixels;
  std::int32_t label;
};

inline auto crop_pipeline(std::size_t threads, photo_set set = photo_set::given) {
  namespace fl = feedline;
  const auto decode = [](const fl::tar_sample& sample, fl::batch_slot<example>& slot, fl::context& context) {
    load<decoding::part_smaller>(sample, context.index,
                                 fl::chw_view(slot.get<&example::pixels>(), 3, side, side));
    slot.get<&example::label>() = 0;
  };
  return fl::tar_samples(photo_shards(set)) |
         fl::batch_into<example>(batch_size, decode, fl::workers{threads}, fl::name{"decode"});
}

/// Measures batches of an endless loader in its steady state. `take` takes a batch and returns a pointer to
/// its pixels. An iteration takes about as many batches as all photographs make, and equally many for each
/// thread, because some loaders make one batch per thread.
template <class Take>
void consume(benchmark::State& state, std::size_t photos_in_batch, const Take& take) {
  const std::size_t in_round = photos_in_batch * threads(state);
  const std::size_t batches = (photos(state).size() + in_round - 1) / in_round * threads(state);
  const auto take_all = [&] {
    for (std::size_t i = 0; i < batches; ++i) benchmark::DoNotOptimize(take());
  };
  take_all();
  take_all();
  for (auto _ : state) take_all();
  report_photos(state, batches * photos_in_batch);
}

template <class Pipeline>
void consume_pipeline(benchmark::State& state, const Pipeline& pipeline) {
  auto loader = pipeline.infinite();
  consume(state, batch_size, [&] { return loader.next().value().template get<&example::pixels>().data(); });
}

template <photo_set Set>
void consume_crops(benchmark::State& state) {
  if (!photos<Set>(state).empty()) consume_pipeline(state, crop_pipeline(threads(state), Set));
}

inline void feedline_pipeline(benchmark::State& state) { consume_crops<photo_set::given>(state); }

// Reports items per second and processor time, for several numbers of threads.
inline void of_threads(benchmark::internal::Benchmark* b, const std::vector<int>& threads) {
  for (const int count : threads) b->Arg(count);
  b->UseRealTime()->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();
}

inline void of_two(benchmark::internal::Benchmark* b) { of_threads(b, {2}); }

inline void of_some(benchmark::internal::Benchmark* b) { of_threads(b, {1, 2, 4, 8}); }
