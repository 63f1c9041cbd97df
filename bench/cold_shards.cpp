// SPDX-License-Identifier: MIT
// What does it cost when shards aren't in the page cache? Random parts of photographs in batches of 64 on two workers,
// in the shards' order and shuffled over all of them: from shards in memory, and from shards that the system must read
// first; with feedline's sources, which read ahead, and with sources that leave reading to the moment when a worker
// touches the bytes. The baseline of the shuffled ones is two bare threads that knew where each photograph lies
// before the time began, announce it to the system, read it from its file, and decode it to memory of their own.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>
#include <feedline/feedline.hpp>
#include <feedline/image.hpp>
#include <feedline/source/detail/tar_shard.hpp>

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

/// Yields the samples of shards in order, without read-ahead.
class unannounced {
 public:
  explicit unannounced(std::vector<std::string> shards) : shards_(std::move(shards)) {}

  std::optional<fl::tar_sample> next() {
    for (; number_ < shards_.size(); ++number_, shard_.reset()) {
      if (!shard_)
        shard_ = std::make_shared<fl::detail::tar_shard>(fl::detail::tar_shard::map(shards_[number_]),
                                                         fl::detail::tar_settings());
      if (auto sample = shard_->next()) return sample;
    }
    return std::nullopt;
  }

 private:
  std::vector<std::string> shards_;
  std::size_t number_ = 0;
  std::shared_ptr<fl::detail::tar_shard> shard_; // null in what is copied
};

/// Yields the samples of shards by position, without read-ahead.
class unannounced_places {
  using samples = decltype(fl::detail::indexed(std::declval<const fl::tar_samples&>()));

 public:
  explicit unannounced_places(const std::vector<std::string>& shards)
      : samples_(fl::detail::indexed(fl::tar_samples(shards))) {}

  std::optional<fl::tar_sample> next() { return next_ < size() ? std::optional(at(next_++)) : std::nullopt; }

  std::uint64_t size() const { return samples_.size(); }

  fl::tar_sample at(std::uint64_t position) const { return samples_.at(position); }

 private:
  samples samples_;
  std::uint64_t next_ = 0;
};

/// Drops a file from the page cache; it must not be mapped.
void drop(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
}

/// Calls `make_source()` for each epoch, because the system can't drop a mapped file from the page cache.
template <class MakeSource>
void run(benchmark::State& state, MakeSource make_source, bool cold) {
  const std::vector<std::string> shards = fl::tar_samples(photo_shards()).shards();
  std::size_t photographs = 0;
  for (auto _ : state) {
    state.PauseTiming();
    if (cold)
      for (const std::string& shard : shards) drop(shard);
    state.ResumeTiming();
    const auto pipeline =
        make_source(shards) | fl::batch_into<example>(64, load, fl::workers{2}, fl::name{"decode"});
    for (const auto& batch : pipeline.finite()) photographs += batch.size();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(photographs));
}

struct place {
  std::size_t shard;
  std::size_t begin, bytes;
};

std::vector<place> places_of_photographs(const std::vector<std::string>& shards) {
  std::vector<place> places;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto file = fl::detail::tar_shard::map(shards[i]);
    fl::detail::tar_shard shard(file, fl::detail::tar_settings());
    while (const auto sample = shard.next()) {
      const auto photograph = (*sample)["jpg"];
      places.push_back(
          {i, static_cast<std::size_t>(photograph.data() - file->bytes().data()), photograph.size()});
    }
  }
  return places;
}

/// Decodes photographs until another thread has taken the last one.
void decode(const std::vector<std::string>& shards, const std::vector<place>& places,
            std::atomic<std::size_t>& next, std::uint64_t seed) {
  std::vector<int> files;
  for (const std::string& shard : shards) files.push_back(::open(shard.c_str(), O_RDONLY | O_CLOEXEC));
  fl::random_generator random(seed);
  std::vector<std::byte> bytes;
  constexpr std::size_t ahead = 64; // photographs
  fl::tensor<float, 3, side, side> pixels;
  const auto part = [&](std::size_t height, std::size_t width) {
    return fl::random_resized_crop{}(height, width, random);
  };
  for (std::size_t i; (i = next++) < places.size();) {
    if (const std::size_t later = i + ahead; later < places.size())
      ::posix_fadvise(files[places[later].shard], static_cast<off_t>(places[later].begin),
                      static_cast<off_t>(places[later].bytes), POSIX_FADV_WILLNEED);
    bytes.resize(places[i].bytes);
    if (::pread(files[places[i].shard], bytes.data(), bytes.size(), static_cast<off_t>(places[i].begin)) !=
        static_cast<ssize_t>(bytes.size()))
      std::abort();
    fl::decode_jpeg_crop(bytes, part, fl::chw_view(pixels));
  }
  for (const int file : files) ::close(file);
}

void bare_threads(benchmark::State& state, bool cold) {
  const std::vector<std::string> shards = fl::tar_samples(photo_shards()).shards();
  std::vector<place> places = places_of_photographs(shards);
  std::mt19937_64 order;
  for (auto _ : state) {
    state.PauseTiming();
    if (cold)
      for (const std::string& shard : shards) drop(shard);
    std::ranges::shuffle(places, order);
    state.ResumeTiming();
    std::atomic<std::size_t> next{0};
    std::jthread other([&] { decode(shards, places, next, 2); });
    decode(shards, places, next, 1);
    other.join();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(places.size()));
}

const auto announced = [](const auto& shards) { return fl::tar_samples(shards); };
const auto silent = [](const auto& shards) { return fl::from(unannounced(shards)); };
const auto announced_places = [](const auto& shards) {
  return fl::tar_samples(shards) | fl::global_shuffle();
};
const auto silent_places = [](const auto& shards) {
  return fl::from(unannounced_places(shards)) | fl::global_shuffle();
};

void in_memory(benchmark::State& state) { run(state, announced, false); }

void cold(benchmark::State& state) { run(state, announced, true); }

void cold_unannounced(benchmark::State& state) { run(state, silent, true); }

void in_memory_shuffled(benchmark::State& state) { run(state, announced_places, false); }

void cold_shuffled(benchmark::State& state) { run(state, announced_places, true); }

void cold_shuffled_unannounced(benchmark::State& state) { run(state, silent_places, true); }

void bare_in_memory_shuffled(benchmark::State& state) { bare_threads(state, false); }

void bare_cold_shuffled(benchmark::State& state) { bare_threads(state, true); }

BENCHMARK(in_memory)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(cold)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(cold_unannounced)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(bare_in_memory_shuffled)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(in_memory_shuffled)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(bare_cold_shuffled)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(cold_shuffled)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(cold_shuffled_unannounced)->UseRealTime()->Unit(benchmark::kMillisecond);

} // namespace
