// SPDX-License-Identifier: MIT
#include <feedline/audio/crop_or_pad.hpp>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"

#include <numeric>
#include <set>
#include <vector>

namespace fl = feedline;

namespace {

/// 1, 2, …
std::vector<float> counted(std::size_t size) {
  std::vector<float> samples(size);
  std::iota(samples.begin(), samples.end(), 1.0f);
  return samples;
}

std::vector<float> centered(std::size_t size, std::size_t length) {
  std::vector<float> out(length, -1);
  fl::center_crop_or_pad(counted(size), out);
  return out;
}

} // namespace

static_assert(fl::center_crop(10, 4) == fl::audio_range{3, 4});
static_assert(fl::center_crop(9, 4) == fl::audio_range{2, 4});
static_assert(fl::center_crop(3, 4) == fl::audio_range{0, 3});
static_assert(fl::center_crop(4, 0) == fl::audio_range{2, 0});

TEST_CASE("a center crop takes the middle, or pads on both sides") {
  CHECK(centered(6, 4) == std::vector<float>{2, 3, 4, 5});
  CHECK(centered(7, 4) == std::vector<float>{2, 3, 4, 5});
  CHECK(centered(4, 4) == std::vector<float>{1, 2, 3, 4});
  CHECK(centered(2, 4) == std::vector<float>{0, 1, 2, 0});
  CHECK(centered(1, 4) == std::vector<float>{0, 1, 0, 0});
  CHECK(centered(0, 3) == std::vector<float>{0, 0, 0});
  CHECK(centered(5, 0).empty());
}

TEST_CASE("a clip may be cropped or padded within its own memory") {
  auto samples = counted(6);
  fl::center_crop_or_pad(std::span(samples).first(2), samples);
  CHECK(samples == std::vector<float>{0, 0, 1, 2, 0, 0});
  samples = counted(6);
  fl::center_crop_or_pad(samples, std::span(samples).first(2));
  CHECK(samples == std::vector<float>{3, 4, 3, 4, 5, 6});
  samples = counted(4);
  fl::random_generator random(1);
  fl::random_crop_or_pad(std::span(samples).subspan(1, 2), samples, random);
  CHECK(samples == std::vector<float>{2, 3, 0, 0});
}

TEST_CASE("every start of a random crop is equally likely") {
  fl::random_generator random(1);
  std::vector<int> times(7);
  for (int i = 0; i < 7000; ++i) {
    const auto part = fl::random_crop(10, 4, random);
    CHECK(part.frames == 4);
    ++times.at(part.first);
  }
  for (const int n : times) CHECK((n > 870 && n < 1130)); // within 4.4 standard deviations
  CHECK(fl::random_crop(4, 4, random) == fl::audio_range{0, 4});
  CHECK(fl::random_crop(3, 4, random) == fl::audio_range{0, 3});
}

TEST_CASE("a short clip is padded at its end, and draws as often as a long one") {
  fl::random_generator a(1), b(1);
  std::vector<float> out(4, -1);
  fl::random_crop_or_pad(counted(2), out, a);
  CHECK(out == std::vector<float>{1, 2, 0, 0});
  fl::random_crop_or_pad(counted(64), out, b);
  CHECK(out[3] == out[0] + 3);
  CHECK(a() == b());
}

TEST_CASE("crops are keyed by the sample: they vary with the epoch, but not with the worker") {
  const auto clip = counted(1000);
  const auto first_sample = [&](int, fl::context& context) {
    std::vector<float> out(10);
    fl::random_crop_or_pad(clip, out, context.random);
    return out[0];
  };
  const auto run = [&](std::size_t workers, std::uint64_t seed) {
    const std::vector<int> samples(50);
    std::vector<float> starts;
    auto loader = (fl::from(samples) | fl::map(first_sample, fl::workers{workers})).infinite({.seed = seed});
    for (int i = 0; i < 150; ++i) starts.push_back(*loader.next());
    return starts;
  };
  const auto one = run(1, 7);
  CHECK(run(2, 7) == one);
  CHECK(run(5, 7) == one);
  CHECK(run(2, 8) != one);
  for (std::size_t epoch = 0; epoch < 2; ++epoch) {
    const auto begin = one.begin() + static_cast<std::ptrdiff_t>(50 * epoch);
    CHECK(!std::equal(begin, begin + 50, begin + 50));
  }
  CHECK(std::set<float>(one.begin(), one.end()).size() > 120);
}
