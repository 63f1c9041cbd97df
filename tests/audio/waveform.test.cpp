// SPDX-License-Identifier: MIT
#include <feedline/audio/waveform.hpp>

#include "support/catch.hpp"
#include "support/near.hpp"
#include "support/throws_saying.hpp"

#include <cmath>
#include <limits>
#include <vector>

namespace fl = feedline;
using namespace feedline::test;

namespace {

std::vector<float> shifted(std::ptrdiff_t frames, fl::shift_edge edge) {
  std::vector<float> samples{1, 2, 3, 4};
  fl::shift_time(samples, frames, edge);
  return samples;
}

} // namespace

TEST_CASE("gain is in decibels") {
  std::vector<float> samples{1, -0.5f};
  fl::apply_gain(samples, 20);
  CHECK(samples == std::vector<float>{10, -5});
  fl::apply_gain(samples, 0);
  CHECK(samples == std::vector<float>{10, -5});
  fl::apply_gain(samples, -6.0206);
  CHECK(near(double{samples[0]}, 5, 5e-5));
}

TEST_CASE("polarity is inverted") {
  std::vector<float> samples{1, -2, 0};
  fl::invert_polarity(samples);
  CHECK(samples == std::vector<float>{-1, 2, 0});
}

TEST_CASE("samples are shifted in time") {
  using enum fl::shift_edge;
  CHECK(shifted(1, silence) == std::vector<float>{0, 1, 2, 3});
  CHECK(shifted(-1, silence) == std::vector<float>{2, 3, 4, 0});
  CHECK(shifted(0, silence) == std::vector<float>{1, 2, 3, 4});
  CHECK(shifted(4, silence) == std::vector<float>{0, 0, 0, 0});
  CHECK(shifted(-9, silence) == std::vector<float>{0, 0, 0, 0});
  CHECK(shifted(1, wrap) == std::vector<float>{4, 1, 2, 3});
  CHECK(shifted(-1, wrap) == std::vector<float>{2, 3, 4, 1});
  CHECK(shifted(4, wrap) == std::vector<float>{1, 2, 3, 4});
  std::vector<float> none;
  fl::shift_time(none, 3);
  CHECK(none.empty());
}

TEST_CASE("a random gain stays within its range and has its probability") {
  double least = 99, most = -99;
  int changed = 0;
  for (std::uint64_t key = 0; key < 2000; ++key) {
    std::vector<float> samples{1};
    fl::random_generator random(key), again(key);
    fl::random_gain{-12, 3, 0.5}(samples, random);
    std::vector<float> same{1};
    fl::random_gain{-12, 3, 0.5}(same, again);
    CHECK(samples == same);
    if (samples[0] == 1) continue;
    ++changed;
    const double decibels = 20 * std::log10(double{samples[0]});
    least = std::min(least, decibels);
    most = std::max(most, decibels);
  }
  CHECK((changed > 910 && changed < 1090)); // 1000, within 4 standard deviations
  CHECK((least >= -12 - 1e-4 && least < -11.8 && most <= 3 + 1e-4 && most > 2.8));
}

TEST_CASE("a random change draws the same whether it applies or not") {
  const auto next_after = [](const auto& augmentation) {
    std::vector<float> samples(10, 1);
    fl::random_generator random(5);
    augmentation(samples, random);
    return random();
  };
  CHECK(next_after(fl::random_gain{.probability = 0}) == next_after(fl::random_gain{.probability = 1}));
  CHECK(next_after(fl::random_polarity{0}) == next_after(fl::random_polarity{1}));
  CHECK(next_after(fl::random_time_shift{.probability = 0}) ==
        next_after(fl::random_time_shift{.probability = 1}));
}

TEST_CASE("a random shift goes both ways, up to max_share") {
  std::ptrdiff_t least = 0, most = 0;
  for (std::uint64_t key = 0; key < 500; ++key) {
    std::vector<float> samples(100);
    samples[50] = 1;
    fl::random_generator random(key);
    fl::random_time_shift{.max_share = 0.2}(samples, random);
    const auto shift = std::find(samples.begin(), samples.end(), 1.0f) - samples.begin() - 50;
    least = std::min(least, shift);
    most = std::max(most, shift);
  }
  CHECK((least <= -18 && least >= -20 && most >= 18 && most <= 20));
}

TEST_CASE("polarity is inverted with its probability") {
  int inverted = 0;
  for (std::uint64_t key = 0; key < 2000; ++key) {
    std::vector<float> samples{1};
    fl::random_generator random(key);
    fl::random_polarity{0.3}(samples, random);
    inverted += samples[0] < 0;
  }
  CHECK((inverted > 518 && inverted < 682)); // 600, within 4 standard deviations
}

TEST_CASE("invalid ranges are refused") {
  std::vector<float> samples{1};
  fl::random_generator random(1);
  CHECK(throws_saying<std::invalid_argument>("feedline::random_gain: the range of decibels is from 3", [&] {
    fl::random_gain{3, -3}(samples, random);
  }));
  CHECK_THROWS_AS((fl::random_gain{0, std::numeric_limits<double>::quiet_NaN()}(samples, random)),
                  std::invalid_argument);
  CHECK(
      throws_saying<std::invalid_argument>("max_share", [&] { fl::random_time_shift{2}(samples, random); }));
}
