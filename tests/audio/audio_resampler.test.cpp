// SPDX-License-Identifier: MIT
#include <feedline/audio/audio_resampler.hpp>

#include "support/audio_files.hpp"
#include "support/catch.hpp"
#include "support/throws_saying.hpp"

#include <cmath>
#include <complex>
#include <numbers>
#include <type_traits>

namespace fl = feedline;
using namespace feedline::test;

namespace {

/// A sine of this frequency and amplitude 1.
std::vector<float> sine(double hertz, std::size_t rate, std::size_t frames) {
  std::vector<float> samples(frames);
  for (std::size_t i = 0; i < frames; ++i)
    samples[i] = static_cast<float>(
        std::sin(2 * std::numbers::pi * hertz * static_cast<double>(i) / static_cast<double>(rate)));
  return samples;
}

/// The amplitude of this frequency in the middle half, under a Hann window.
double amplitude(std::span<const float> samples, double hertz, std::size_t rate) {
  const std::size_t size = samples.size() / 2, first = samples.size() / 4;
  std::complex<double> sum;
  double weights = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const double x = static_cast<double>(i) / static_cast<double>(size);
    const double weight = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * x);
    sum += weight * double{samples[first + i]} *
           std::polar(1.0, 2 * std::numbers::pi * hertz * static_cast<double>(i) / static_cast<double>(rate));
    weights += weight;
  }
  return 2 * std::abs(sum) / weights;
}

double decibels(double ratio) { return 20 * std::log10(ratio + 1e-30); }

/// The root mean square of the middle half, scaled to 1 for a sine of amplitude 1.
double level(std::span<const float> samples) {
  double sum = 0;
  for (const float s : samples.subspan(samples.size() / 4, samples.size() / 2)) sum += double{s} * double{s};
  return std::sqrt(2 * sum / static_cast<double>(samples.size() / 2));
}

struct rates {
  std::size_t from, to;
};

constexpr rates usual[] = {{44'100, 32'000}, {48'000, 32'000}, {16'000, 32'000}, {8000, 16'000},
                           {44'100, 16'000}, {22'050, 32'000}, {32'000, 44'100}, {96'000, 16'000}};

} // namespace

// A worker's function holds one.
static_assert(std::is_move_constructible_v<fl::audio_resampler> &&
              !std::is_copy_constructible_v<fl::audio_resampler>);

TEST_CASE("equal rates copy nothing") {
  fl::audio_resampler resampler;
  auto samples = tone(1000);
  const auto same = resampler.resample(samples, 16'000, 16'000);
  CHECK((same.data() == samples.data() && same.size() == 1000));
  const fl::audio_clip clip{samples, 2, 500, 16'000};
  CHECK(resampler.resample(clip, 16'000).samples.data() == samples.data());
}

TEST_CASE("resampling keeps the duration of a clip") {
  using r = fl::audio_resampler;
  static_assert(r::resampled_frames(160'000, 32'000, 16'000) == 80'000);
  static_assert(r::resampled_frames(1, 44'100, 32'000) == 1);
  static_assert(r::resampled_frames(441, 44'100, 32'000) == 320);
  static_assert(r::resampled_frames(442, 44'100, 32'000) == 321);
  static_assert(r::resampled_frames(0, 8000, 16'000) == 0);
  fl::audio_resampler resampler;
  const auto samples = tone(5000);
  for (const auto [from, to] : usual)
    for (const std::size_t frames : {0u, 1u, 2u, 3u, 10u, 441u, 1000u, 4097u, 5000u}) {
      INFO(from << " to " << to << ", " << frames << " frames");
      const auto out = resampler.resample(std::span(samples).first(frames), from, to);
      CHECK(out.size() ==
            static_cast<std::size_t>(std::ceil(static_cast<double>(frames) * static_cast<double>(to) /
                                               static_cast<double>(from))));
      CHECK(std::all_of(out.begin(), out.end(), [](float v) { return std::abs(v) < 1.5f; }));
    }
}

TEST_CASE("the passband is flat, and samples stay in time") {
  struct tolerance {
    fl::resampling_quality quality;
    double ripple; // dB
    double error;  // of a sample
  };

  // Low quality begins to attenuate earlier.
  for (const auto [quality, ripple, error] : {tolerance{fl::resampling_quality::medium, 0.015, 2e-3},
                                              tolerance{fl::resampling_quality::high, 0.015, 2e-3},
                                              tolerance{fl::resampling_quality::very_high, 0.015, 2e-3}}) {
    fl::audio_resampler resampler(quality);
    for (const auto [from, to] : usual) {
      const double band = 0.5 * static_cast<double>(std::min(from, to));
      double lowest = 0, highest = 0, worst = 0;
      for (int step = 1; step <= 18; ++step) {
        const double hertz = band * 0.05 * step; // up to 0.9 of the band
        const auto out = resampler.resample(sine(hertz, from, from / 2), from, to);
        const double gain = decibels(amplitude(out, hertz, to));
        lowest = std::min(lowest, gain);
        highest = std::max(highest, gain);
        const auto expected = sine(hertz, to, out.size());
        for (std::size_t i = out.size() / 4; i < out.size() * 3 / 4; ++i)
          worst = std::max(worst, std::abs(double{out[i]} - double{expected[i]}));
      }
      INFO(from << " to " << to << ": " << lowest << " to " << highest << " dB, largest error " << worst);
      CHECK(highest - lowest <= ripple);
      CHECK(worst <= error);
    }
  }
}

TEST_CASE("frequencies above half the new rate are attenuated") {
  struct tolerance {
    fl::resampling_quality quality;
    double most; // dB
  };

  for (const auto [quality, most] :
       {tolerance{fl::resampling_quality::low, -90}, tolerance{fl::resampling_quality::medium, -95},
        tolerance{fl::resampling_quality::high, -115}, tolerance{fl::resampling_quality::very_high, -130}}) {
    fl::audio_resampler resampler(quality);
    for (const auto [from, to] : usual) {
      if (from < to) continue;
      const double low = 0.5 * static_cast<double>(to), high = 0.5 * static_cast<double>(from);
      double loudest = -999;
      for (int step = 1; step < 20; ++step) {
        const double hertz = low + (high - low) * 0.05 * step;
        loudest =
            std::max(loudest, decibels(level(resampler.resample(sine(hertz, from, from / 2), from, to))));
      }
      INFO(from << " to " << to << ": aliases of " << loudest << " dB");
      CHECK(loudest <= most);
    }
  }
}

TEST_CASE("upsampling adds no image frequencies") {
  fl::audio_resampler resampler;
  for (const auto [from, to] : usual) {
    if (from > to) continue;
    double loudest = -999;
    for (int step = 1; step <= 18; ++step) {
      const double hertz = 0.025 * step * static_cast<double>(from);
      const double image = static_cast<double>(from) - hertz;
      if (image >= 0.5 * static_cast<double>(to)) continue;
      const auto out = resampler.resample(sine(hertz, from, from / 2), from, to);
      loudest = std::max(loudest, decibels(amplitude(out, image, to)));
    }
    INFO(from << " to " << to << ": images of " << loudest << " dB");
    CHECK(loudest <= -110);
  }
}

TEST_CASE("the result doesn't depend on earlier clips") {
  fl::audio_resampler kept;
  fl::random_generator random(3);
  for (int i = 0; i < 60; ++i) {
    const auto samples = tone(1 + random.below(20'000), random());
    const auto [from, to] = usual[random.below(std::size(usual))];
    fl::audio_resampler fresh;
    const auto a = kept.resample(samples, from, to), b = fresh.resample(samples, from, to);
    INFO(samples.size() << " frames from " << from << " to " << to);
    CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end()));
  }
}

TEST_CASE("more pairs of rates than the cache holds are resampled correctly") {
  fl::audio_resampler resampler;
  const auto samples = tone(500);
  for (int round = 0; round < 2; ++round)
    for (std::size_t rate = 8000; rate < 8020; ++rate)
      CHECK(resampler.resample(samples, rate, 16'000).size() ==
            fl::audio_resampler::resampled_frames(500, rate, 16'000));
}

TEST_CASE("each channel is resampled independently") {
  fl::audio_resampler resampler, other;
  auto samples = tone(2000);
  const auto clip = resampler.resample(fl::audio_clip{samples, 2, 1000, 44'100}, 32'000);
  CHECK((clip.channels == 2 && clip.frames == 726 && clip.rate == 32'000));
  for (std::size_t c = 0; c < 2; ++c) {
    const auto alone = other.resample(std::span(samples).subspan(c * 1000, 1000), 44'100, 32'000);
    CHECK(std::equal(alone.begin(), alone.end(), clip.channel(c).begin(), clip.channel(c).end()));
  }
}

TEST_CASE("invalid rates are refused") {
  fl::audio_resampler resampler;
  const std::vector<float> samples(10);
  for (const auto [from, to] :
       {rates{0, 8000}, rates{8000, 0}, rates{0, 0}, rates{1, 8000}, rates{8'000'000, 8000},
        rates{std::size_t{1} << 40, std::size_t{1} << 40}, rates{static_cast<std::size_t>(-1), 8000}})
    CHECK(throws_saying<std::invalid_argument>(
        "feedline::audio_resampler: can't resample from " +
            (from == static_cast<std::size_t>(-1) ? "-1" : std::to_string(from)),
        [&] { resampler.resample(samples, from, to); }));
}
