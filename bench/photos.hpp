// SPDX-License-Identifier: MIT
#pragma once
// The photographs that benchmarks decode, from the TAR shards that FEEDLINE_BENCH_PHOTOS names, and the same ones with
// restart markers, which FEEDLINE_BENCH_MARKED_PHOTOS names. The shards stay mapped.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <feedline/feedline.hpp>
#include <feedline/image.hpp>

enum class photo_set { given, marked };

inline const char* variable_of(photo_set set) {
  return set == photo_set::given ? "FEEDLINE_BENCH_PHOTOS" : "FEEDLINE_BENCH_MARKED_PHOTOS";
}

inline std::string photo_shards(photo_set set = photo_set::given) {
  const char* const shards = std::getenv(variable_of(set));
  return shards ? shards : "";
}

/// All samples of the shards. Without shards the list is empty and the benchmark is skipped.
template <photo_set Set = photo_set::given>
const std::vector<feedline::tar_sample>& photos(benchmark::State& state) {
  static const std::vector<feedline::tar_sample> all = [] {
    std::vector<feedline::tar_sample> samples;
    if (photo_shards(Set).empty()) return samples;
    feedline::tar_samples source(photo_shards(Set));
    while (auto sample = source.next()) samples.push_back(std::move(*sample));
    return samples;
  }();
  if (all.empty())
    state.SkipWithError(
        ("set " + std::string(variable_of(Set)) + " to the name of a TAR shard of JPEGs, or to a pattern")
            .c_str());
  return all;
}

using image = feedline::tensor<std::uint8_t>;

inline image decode(const feedline::tar_sample& sample) { return feedline::decode_jpeg(sample["jpg"]); }

/// Shapes with soft edges, and noise below a number.
inline image made_picture(feedline::random_generator& random, std::size_t height, std::size_t width,
                          std::uint64_t noise) {
  image picture(feedline::shape{height, width, 3});
  for (std::size_t c = 0; c < 3; ++c) {
    const double wave = random.uniform(0.005, 0.05), turn = random.uniform(0.005, 0.05);
    for (std::size_t y = 0; y < height; ++y)
      for (std::size_t x = 0; x < width; ++x)
        picture[(y * width + x) * 3 + c] = static_cast<std::uint8_t>(
            128 +
            80 * std::sin(wave * static_cast<double>(x + c * y)) * std::cos(turn * static_cast<double>(y)) +
            static_cast<double>(random.below(noise)));
  }
  return picture;
}

inline void report_photos(benchmark::State& state, std::size_t photos) {
  state.SetItemsProcessed(static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * photos));
}
