// SPDX-License-Identifier: MIT
// The steady state of photographs: no allocation for a sample or a batch, including those of libjpeg and libpng.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/image.hpp>

#include "support/catch.hpp"
#include "support/counted_allocations.hpp"
#include "support/jpeg_writer.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/test_data.hpp"
#include "support/watchdog.hpp"

#ifdef FEEDLINE_IMAGE_PNG
#include "support/png_writer.hpp"
#endif

namespace fl = feedline;
using namespace feedline::test;

namespace {

constexpr std::size_t side = 64;

struct example {
  fl::tensor<float, 3, side, side> pixels;
  int label;
};

const auto load = [](const fl::tar_sample& sample, fl::batch_slot<example>& slot, fl::context& context) {
  fl::decode_jpeg_crop(sample["jpg"],
                       [&](std::size_t height, std::size_t width) {
                         return fl::random_resized_crop{}(height, width, context.random);
                       },
                       fl::chw_view(slot.get<&example::pixels>(), 3, side, side),
                       {.horizontal_flip = context.random.chance(0.5)});
  slot.get<&example::label>() = 1;
};

struct large {
  fl::tensor<float, 3, 224, 224> pixels;
};

const auto load_large = [](const fl::tar_sample& sample, fl::batch_slot<large>& slot) {
  fl::decode_jpeg_crop(sample["jpg"], fl::resized_center_crop{},
                       fl::chw_view(slot.get<&large::pixels>(), 3, 224, 224));
};

/// The bytes of the process's memory, without mapped files.
std::size_t resident() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::size_t kilobytes = 0;
  while (status >> word)
    if (word == "RssAnon:") status >> kilobytes;
  return kilobytes * 1024;
}

constexpr std::size_t photos = 320, shard_count = 5;

/// Writes shards of generated JPEGs, of several sizes, samplings and colours.
void write_shards(const temporary_folder& folder) {
  for (std::size_t shard = 0, n = 0; shard < shard_count; ++shard) {
    tar_writer tar;
    for (; n < (shard + 1) * photos / shard_count; ++n) {
      const bool is_gray = n % 16 == 7;
      const int sampling = n % 3 == 0 ? 1 : 2;
      const auto file = write_jpeg(gradient(90 + n % 7 * 15, 130 - n % 5 * 12, is_gray ? 1 : 3),
                                   {.from = is_gray ? JCS_GRAYSCALE : JCS_RGB,
                                    .stored = is_gray ? JCS_GRAYSCALE : JCS_YCbCr,
                                    .across = sampling,
                                    .down = sampling,
                                    .restart_interval = n % 4 == 1 ? 1u : 0u});
      const std::string name = std::to_string(n);
      tar.add(name + ".jpg", {reinterpret_cast<const char*>(file.data()), file.size()})
          .add(name + ".cls", "1");
    }
    folder.write("shard-" + std::to_string(shard) + ".tar", tar.closed());
  }
}

/// Waits for an epoch of at most `most` allocations. Earlier epochs may still allocate packets, and memory
/// for the largest photograph that a worker has seen: how long this takes depends on the scheduler.
/// Allocations for each sample or batch occur in every epoch.
template <class Pipeline>
bool settles(const Pipeline& p, std::size_t batch_size, std::uint64_t most) {
  auto loader = p.infinite();
  std::uint64_t fewest = ~std::uint64_t{0};
  for (int epoch = 0; epoch < 40 && fewest > most; ++epoch) {
    const std::uint64_t before = allocations;
    for (std::size_t i = 0; i < photos / batch_size; ++i) loader.next();
    fewest = std::min<std::uint64_t>(fewest, allocations - before);
  }
  UNSCOPED_INFO("batches of " << batch_size << ": " << fewest << " allocations in the epoch of the fewest");
  return fewest <= most;
}

void take_no_memory_for_each(const std::string& folder) {
  const auto shards = fl::tar_samples(folder + "/*.tar");
  REQUIRE(shards.shards().size() == shard_count);
  for (const std::size_t batch_size : {4u, 32u}) {
    const auto batches = fl::batch_into<example>(batch_size, load, fl::workers{3});
    // Opening a shard and starting an epoch allocate a little.
    CHECK(settles(shards | batches, batch_size, 4 * shard_count + 8));
    CHECK(settles(shards | fl::global_shuffle() | batches, batch_size, 7));
  }
}

void take_what_was_announced(const std::string& folder) {
  constexpr std::size_t workers = 3;
  const auto p =
      fl::tar_samples(folder + "/*.tar") | fl::batch_into<large>(32, load_large, fl::workers{workers});
  const std::size_t before = resident();
  auto loader = p.infinite({.memory_budget = 250'000'000});
  std::size_t most = 0;
  for (int i = 0; i < 40; ++i) {
    const auto batch = loader.next();
    most = std::max(most, resident());
  }
  const std::size_t announced = loader.memory().bytes().value_or(0);
  INFO(to_string(loader.memory()));
  CHECK(announced <= 250'000'000);
  constexpr std::size_t of_decoders = 4'000'000; // each, which the memory plan doesn't include
  CHECK(most - before < announced + workers * of_decoders);
  CHECK(most > 32 * 3 * 224 * 224 * sizeof(float)); // a batch, at least
}

} // namespace

TEST_CASE("a decoder allocates nothing for an image of the size of an earlier one, or smaller") {
  fl::tensor<float, 3, side, side> part;
  std::vector<std::uint8_t> pixels(300 * 401 * 3);
  const auto count_for = [&](fl::jpeg_decoder& decoder, const std::vector<std::byte>& file,
                             std::size_t size) {
    const std::uint64_t before = allocations;
    decoder.decode_crop(file, fl::resized_center_crop{}, chw_view(part));
    decoder.decode_into(file, std::span(pixels).first(size));
    return allocations - before;
  };
  for (const auto& [sampling, interval] :
       {std::pair(1, 0u), {2, 0u}, {1, 3u}, {2, 2u}}) { // 51 and 26 columns of MCUs
    const auto file =
        write_jpeg(noise(300, 401, 3), {.across = sampling, .down = sampling, .restart_interval = interval});
    const auto smaller =
        write_jpeg(noise(298, 310, 3), {.across = sampling, .down = sampling, .restart_interval = interval});
    fl::jpeg_decoder decoder;
    CHECK(count_for(decoder, file, pixels.size()) > 0);
    for (int i = 0; i < 3; ++i) {
      CHECK(count_for(decoder, file, pixels.size()) == 0);
      CHECK(count_for(decoder, smaller, 298 * 310 * 3) == 0);
    }
  }
}

#ifdef FEEDLINE_IMAGE_PNG
TEST_CASE("a PNG or mask of the size of an earlier one, or smaller, is decoded without an allocation") {
  fl::tensor<float, 3, side, side> part;
  fl::tensor<std::int32_t, 1, side, side> numbers;
  std::vector<std::uint8_t> pixels(300 * 401 * 3);
  for (const bool interlaced : {false, true}) {
    const auto file = write_png(samples_of(noise(300, 401, 3)), {.interlaced = interlaced});
    const auto mask =
        write_png(samples_of(noise(300, 401, 1)), {.type = PNG_COLOR_TYPE_GRAY, .interlaced = interlaced});
    const auto smaller = write_png(samples_of(noise(298, 310, 3)), {.interlaced = interlaced});
    fl::image_decoder decoder;
    const auto count = [&] {
      const std::uint64_t before = allocations;
      decoder.decode_crop(file, fl::resized_center_crop{}, chw_view(part));
      decoder.decode_into(file, pixels);
      decoder.decode_mask_crop(mask, fl::resized_center_crop{}, chw_view(numbers));
      decoder.decode_into(smaller, std::span(pixels).first(298 * 310 * 3));
      return allocations - before;
    };
    CHECK(count() > 0);
    CHECK(count() == 0);
    CHECK(count() == 0);
  }
}
#endif

TEST_CASE("a pipeline from shards to batches of images allocates nothing per image") {
  const watchdog guard("generated images");
  const temporary_folder folder;
  write_shards(folder);
  take_no_memory_for_each(folder.path());
}

TEST_CASE("a run of images uses no more memory than its plan") {
  const watchdog guard("resident memory of generated images");
  const temporary_folder folder;
  write_shards(folder);
  take_what_was_announced(folder.path());
}

TEST_CASE("a pipeline from shards to batches of photographs allocates nothing per photograph", "[shared]") {
  const watchdog guard("photographs");
  if (const auto folder = test_data("photos")) take_no_memory_for_each(*folder);
}

TEST_CASE("a run of photographs uses no more memory than its plan", "[shared]") {
  const watchdog guard("resident memory");
  if (const auto folder = test_data("photos")) take_what_was_announced(*folder);
}
