// SPDX-License-Identifier: MIT
// What photographs cost when nothing new happens: no memory for a sample or a batch, libjpeg's included.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include <feedline/feedline.hpp>
#include <feedline/image.hpp>

#include "support/catch.hpp"
#include "support/test_data.hpp"
#include "support/watchdog.hpp"

namespace {

std::atomic<std::uint64_t> allocations{0};

void count() { allocations.fetch_add(1, std::memory_order_relaxed); }

} // namespace

// All that the executable and its libraries allocate, operator new included, ends up in these.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  count();
  return __libc_malloc(bytes);
}

void* calloc(std::size_t number, std::size_t bytes) {
  count();
  return __libc_calloc(number, bytes);
}

void* realloc(void* memory, std::size_t bytes) {
  count();
  return __libc_realloc(memory, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}
}

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
                       {.mirrored = context.random.chance(0.5)});
  slot.get<&example::label>() = 1;
};

struct large {
  fl::tensor<float, 3, 224, 224> pixels;
};

const auto load_large = [](const fl::tar_sample& sample, fl::batch_slot<large>& slot) {
  fl::decode_jpeg_crop(sample["jpg"], fl::resized_center_crop{},
                       fl::chw_view(slot.get<&large::pixels>(), 3, 224, 224));
};

/// Bytes of memory that are the process's own, without mapped files.
std::size_t resident() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::size_t kilobytes = 0;
  while (status >> word)
    if (word == "RssAnon:") status >> kilobytes;
  return kilobytes * 1024;
}

/// Allocations in `epochs` epochs of 320 photographs, after as many to warm up.
template <class Pipeline>
std::uint64_t allocations_in_epochs(const Pipeline& p, std::size_t epochs, std::size_t batch_size) {
  auto loader = p.infinite();
  const std::size_t batches = epochs * 320 / batch_size;
  for (std::size_t i = 0; i < batches; ++i) loader.next();
  const std::uint64_t before = allocations;
  for (std::size_t i = 0; i < batches; ++i) loader.next();
  return allocations - before;
}

} // namespace

TEST_CASE("photographs go from their shard into a batch without an allocation for each") {
  const watchdog guard("photographs");
  const auto folder = test_data("photos");
  if (!folder) return;
  const auto shards = fl::tar_samples(*folder + "/*.tar");
  REQUIRE(shards.shards().size() == 5);
  constexpr std::size_t epochs = 2;
  for (const std::size_t batch_size : {4u, 32u}) {
    const auto batches = fl::batch_into<example>(batch_size, load, fl::workers{3});
    // Opening a shard takes some memory, and so does beginning an epoch; now and then a photograph needs more
    // than all before it.
    CHECK(allocations_in_epochs(shards | batches, epochs, batch_size) < epochs * (3 * 5 + 8) + 20);
    CHECK(allocations_in_epochs(shards | fl::shuffled() | batches, epochs, batch_size) < epochs * 8 + 20);
  }
}

TEST_CASE("photographs take no more memory than the run announced") {
  const watchdog guard("resident memory");
  const auto folder = test_data("photos");
  if (!folder) return;
  constexpr std::size_t workers = 3;
  const auto p =
      fl::tar_samples(*folder + "/*.tar") | fl::batch_into<large>(32, load_large, fl::workers{workers});
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
  constexpr std::size_t of_decoders = 4'000'000; // each: that isn't the run's
  CHECK(most - before < announced + workers * of_decoders);
  CHECK(most - before > 32 * 3 * 224 * 224 * sizeof(float));
}
