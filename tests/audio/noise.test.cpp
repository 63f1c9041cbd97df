// SPDX-License-Identifier: MIT
#include <feedline/audio/noise.hpp>

#include "support/audio_files.hpp"
#include "support/catch.hpp"
#include "support/near.hpp"
#include "support/throws_saying.hpp"

#include <array>
#include <cmath>
#include <vector>

namespace fl = feedline;
using namespace feedline::test;

namespace {

/// The ratio of `samples` to the added noise, in decibels.
double measured_snr(const std::vector<float>& samples, const std::vector<float>& noisy) {
  std::vector<float> noise(samples.size());
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = noisy[i] - samples[i];
  return 10 * std::log10(fl::mean_power(samples) / fl::mean_power(noise));
}

} // namespace

TEST_CASE("the mean power is the mean of all squares") {
  CHECK(fl::mean_power({}) == 0);
  for (const std::size_t size : {1u, 3u, 4u, 5u, 1000u})
    CHECK(fl::mean_power(std::vector<float>(size, -2.0f)) == 4);
}

TEST_CASE("noise is added at the requested ratio") {
  const auto samples = tone(10'000, 1), noise = tone(10'000, 2);
  for (const double snr : {-10.0, 0.0, 3.0, 20.0, 40.0}) {
    auto noisy = samples;
    fl::add_noise(noisy, noise, snr);
    CHECK(near(measured_snr(samples, noisy), snr, 0.01));
  }
}

TEST_CASE("silence stays silent, and silent noise changes nothing") {
  std::vector<float> silence(100);
  fl::add_noise(silence, tone(100), 10);
  CHECK(silence == std::vector<float>(100));
  auto samples = tone(100);
  fl::add_noise(samples, silence, 10);
  CHECK(samples == tone(100));
  fl::random_generator random(1);
  fl::random_white_noise{}(silence, random);
  CHECK(silence == std::vector<float>(100));
}

TEST_CASE("noise of another length is refused") {
  auto samples = tone(100);
  CHECK(throws_saying<std::invalid_argument>("the noise has 99 samples, but the clip has 100",
                                             [&] { fl::add_noise(samples, tone(99), 10); }));
}

TEST_CASE("white noise has the drawn ratio") {
  const auto samples = tone(50'000);
  double least = 99, most = -99;
  for (std::uint64_t key = 0; key < 100; ++key) {
    auto noisy = samples;
    fl::random_generator random(key);
    fl::random_white_noise{.min_snr_decibels = 5, .max_snr_decibels = 15}(noisy, random);
    const double snr = measured_snr(samples, noisy);
    least = std::min(least, snr);
    most = std::max(most, snr);
  }
  CHECK((least > 4.8 && least < 5.5 && most < 15.2 && most > 14.5));
}

TEST_CASE("white noise is nearly normally distributed, and its samples are independent") {
  constexpr std::size_t count = 200'000;
  fl::random_generator random(4);
  double sum = 0, squares = 0, fourth = 0, neighbours = 0, before = 0;
  std::array<double, 3> within{};
  for (std::size_t i = 0; i < count; ++i) {
    const double x = double{fl::detail::draw_normal(random)};
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    neighbours += x * before;
    before = x;
    for (std::size_t k = 0; k < 3; ++k) within[k] += std::abs(x) < static_cast<double>(k + 1);
  }
  CHECK(near(sum / count, 0, 0.01));
  CHECK(near(squares / count, 1, 0.015));
  CHECK(near(fourth / count, 2.9, 0.06)); // 3 for a normal distribution
  CHECK(near(neighbours / count, 0, 0.01));
  CHECK(near(within[0] / count, 0.6827, 0.007));
  CHECK(near(within[1] / count, 0.9545, 0.003));
  CHECK(near(within[2] / count, 0.9973, 0.001));
}

TEST_CASE("draws after noise don't depend on the clip") {
  const auto next_after = [](std::size_t size, double probability) {
    auto samples = tone(size);
    fl::random_generator random(5);
    fl::random_white_noise{.probability = probability}(samples, random);
    return random();
  };
  CHECK(next_after(10, 1) == next_after(1000, 1));
  CHECK(next_after(10, 0) == next_after(10, 1));
  CHECK(next_after(0, 1) == next_after(10, 1));
}
