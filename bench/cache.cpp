// SPDX-License-Identifier: MIT
// What does an epoch from a cache cost? Photographs are decoded and resized to 256 pixels on two workers, in batches
// of 64: decoded in each epoch, in the first epoch, which fills the cache, and in a later epoch, from a cache in
// memory or in a directory (in the system's page cache). FEEDLINE_BENCH_CACHE names the directory, by default one in
// /tmp; it is left there.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include <feedline/cache/cache.hpp>
#include <feedline/image/resize.hpp>

#include "photos.hpp"

namespace fl = feedline;

namespace {

constexpr std::uint64_t plenty = 4'000'000'000;

using small_image = fl::tensor<std::uint8_t, 256, 256, 3>;

const auto load = [](const fl::tar_sample& sample) {
  small_image pixels;
  const auto whole = [](std::size_t height, std::size_t width) {
    return fl::resized_center_crop{.short_side = 256, .side = 256}(height, width);
  };
  fl::decode_jpeg_crop(sample["jpg"], whole, fl::hwc_view(pixels));
  return pixels;
};

auto decoding() {
  return fl::tar_samples(photo_shards()) | fl::global_shuffle() | fl::map(load, fl::workers{2});
}

template <class Pipeline>
std::size_t run(const Pipeline& pipeline) {
  std::size_t photos = 0;
  for (const auto& batch : (pipeline | fl::batch(64)).finite()) photos += batch.size();
  return photos;
}

void decoded_each_time(benchmark::State& state) {
  if (photos(state).empty()) return;
  std::size_t count = 0;
  const auto pipeline = decoding();
  for (auto _ : state) count = run(pipeline);
  report_photos(state, count);
}

/// `first`: each epoch fills a new cache; otherwise the cache is full.
void cached(benchmark::State& state, const fl::cache_options& options, bool first) {
  if (photos(state).empty()) return;
  std::size_t count = 0;
  const auto filled = decoding() | fl::cache(options);
  if (!first) run(filled);
  for (auto _ : state) count = first ? run(decoding() | fl::cache(options)) : run(filled);
  report_photos(state, count);
}

std::string directory() {
  const char* const name = std::getenv("FEEDLINE_BENCH_CACHE");
  return name ? name : "/tmp/feedline-bench-cache";
}

void first_epoch_to_memory(benchmark::State& state) { cached(state, {.memory_bytes = plenty}, true); }

void from_memory(benchmark::State& state) { cached(state, {.memory_bytes = plenty}, false); }

void from_directory(benchmark::State& state) {
  cached(state, {.directory = directory(), .directory_bytes = plenty}, false);
}

BENCHMARK(decoded_each_time)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(first_epoch_to_memory)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(from_memory)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(from_directory)->UseRealTime()->Unit(benchmark::kMillisecond);

} // namespace
