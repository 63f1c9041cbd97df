// SPDX-License-Identifier: MIT
#pragma once
// The photographs that benchmarks decode, from the TAR shards that FEEDLINE_BENCH_PHOTOS names. The shards
// stay mapped.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <feedline/feedline.hpp>
#include <feedline/image.hpp>

inline std::string photo_shards() {
  const char* const shards = std::getenv("FEEDLINE_BENCH_PHOTOS");
  return shards ? shards : "";
}

/// All samples of the shards. Without shards the list is empty and the benchmark is skipped.
inline const std::vector<feedline::tar_sample>& photos(benchmark::State& state) {
  static const std::vector<feedline::tar_sample> all = [] {
    std::vector<feedline::tar_sample> samples;
    if (photo_shards().empty()) return samples;
    feedline::tar_samples source(photo_shards());
    while (auto sample = source.next()) samples.push_back(std::move(*sample));
    return samples;
  }();
  if (all.empty())
    state.SkipWithError("set FEEDLINE_BENCH_PHOTOS to the name of a TAR shard of JPEGs, or to a pattern");
  return all;
}

using image = feedline::tensor<std::uint8_t>;

inline image decode(const feedline::tar_sample& sample) { return feedline::decode_jpeg(sample["jpg"]); }

inline void report_photos(benchmark::State& state, std::size_t photos) {
  state.SetItemsProcessed(static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * photos));
}
