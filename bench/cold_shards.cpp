// SPDX-License-Identifier: MIT
// What does it cost that shards aren't in the page cache? Random parts of photographs in batches of 64 on two
// workers: from shards in memory, and from shards that the system must read first; beside a source that leaves
// reading to the moment when a worker touches the bytes.
#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <feedline/feedline.hpp>
#include <feedline/image.hpp>

#include "photos.hpp"

namespace fl = feedline;

namespace {

constexpr std::size_t side = 224;

struct example {
  fl::tensor<float, 3, side, side> pixels;
};

const auto load = [](const fl::tar_sample& sample, fl::batch_slot<example>& slot, fl::context& context) {
  const auto part = [&](std::size_t height, std::size_t width) {
    return fl::random_resized_crop{}(height, width, context.random);
  };
  fl::decode_jpeg_crop(sample["jpg"], part, fl::chw_view(slot.get<&example::pixels>(), 3, side, side));
};

/// Samples of shards one after another; nobody reads ahead.
class unannounced {
 public:
  explicit unannounced(std::vector<std::string> shards) : shards_(std::move(shards)) {}

  std::optional<fl::tar_sample> next() {
    for (; number_ < shards_.size(); ++number_, shard_.reset()) {
      if (!shard_) shard_.emplace(shards_[number_]);
      if (auto sample = shard_->next()) return sample;
    }
    return std::nullopt;
  }

 private:
  std::vector<std::string> shards_;
  std::size_t number_ = 0;
  std::optional<fl::detail::tar_shard> shard_;
};

/// Has the system forget what it knows of a file that nobody maps.
void drop(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
}

template <class Source>
void run(benchmark::State& state, Source source, bool cold) {
  const auto pipeline =
      std::move(source) | fl::batch_into<example>(64, load, fl::workers{2}, fl::name{"decode"});
  const std::vector<std::string> shards = fl::tar_samples(photo_shards()).shards();
  std::size_t photographs = 0;
  for (auto _ : state) {
    state.PauseTiming();
    if (cold)
      for (const std::string& shard : shards) drop(shard);
    state.ResumeTiming();
    for (const auto& batch : pipeline.finite()) photographs += batch.size();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(photographs));
}

void in_memory(benchmark::State& state) { run(state, fl::tar_samples(photo_shards()), false); }

void cold(benchmark::State& state) { run(state, fl::tar_samples(photo_shards()), true); }

void cold_unannounced(benchmark::State& state) {
  run(state, unannounced(fl::tar_samples(photo_shards()).shards()), true);
}

BENCHMARK(in_memory)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(cold)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(cold_unannounced)->UseRealTime()->Unit(benchmark::kMillisecond);

} // namespace
