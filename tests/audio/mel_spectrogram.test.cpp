// SPDX-License-Identifier: MIT
#include <feedline/audio/mel_spectrogram.hpp>

#include "support/audio_files.hpp"
#include "support/catch.hpp"
#include "support/near.hpp"
#include "support/throws_saying.hpp"

#include <cmath>
#include <complex>
#include <limits>
#include <numbers>
#include <thread>
#include <vector>

namespace fl = feedline;
using namespace feedline::test;

namespace {

constexpr double pi = std::numbers::pi;

std::vector<float> spectrogram_of(const fl::mel_spectrogram& features, std::span<const float> samples) {
  std::vector<float> out(features.mels() * features.frames(samples.size()), -1);
  features(samples, out);
  return out;
}

/// The definition, computed literally in double precision: [mels, frames].
std::vector<double> by_definition(const fl::mel_options& o, std::span<const float> samples) {
  const auto n = static_cast<std::ptrdiff_t>(o.fft_length);
  const auto size = static_cast<std::ptrdiff_t>(samples.size());
  const auto window_length = static_cast<std::ptrdiff_t>(o.window_length ? o.window_length : o.fft_length);
  const auto hop = static_cast<std::ptrdiff_t>(o.hop_length);
  const std::ptrdiff_t frames =
      o.centered ? (size + n / 2 * 2 - n) / hop + 1 : (size - window_length) / hop + 1;
  const double highest = o.max_frequency > 0 ? o.max_frequency : o.sample_rate / 2 + o.max_frequency;
  const auto mels_of = [&](double f) { return fl::detail::to_mels(f, o.scale); };
  const auto hertz_of = [&](double m) { return fl::detail::to_hertz(m, o.scale); };
  std::vector<double> out(o.mels * static_cast<std::size_t>(frames));
  for (std::ptrdiff_t frame = 0; frame < frames; ++frame) {
    std::vector<double> x(static_cast<std::size_t>(window_length));
    double mean = 0;
    for (std::ptrdiff_t i = 0; i < window_length; ++i) {
      std::ptrdiff_t at = frame * hop + i;
      if (o.centered) at += (n - window_length) / 2 - n / 2;
      const bool outside = at < 0 || at >= size;
      if (at < 0) at = -at;
      if (at >= size) at = 2 * (size - 1) - at;
      x[static_cast<std::size_t>(i)] = outside && o.padding == fl::spectrogram_padding::silence
                                           ? 0.0
                                           : double{samples[static_cast<std::size_t>(at)]};
      mean += x[static_cast<std::size_t>(i)] / static_cast<double>(window_length);
    }
    for (double& v : x) v -= o.remove_mean ? mean : 0;
    for (std::size_t i = x.size(); i-- > 0;) x[i] -= o.pre_emphasis * x[i > 0 ? i - 1 : 0];
    for (std::size_t i = 0; i < x.size() && x.size() > 1; ++i)
      x[i] *= fl::detail::window_at(o.window, static_cast<double>(i) /
                                                  static_cast<double>(x.size() - !o.periodic_window));
    std::vector<double> spectrum(o.fft_length / 2 + 1);
    for (std::size_t k = 0; k < spectrum.size(); ++k) {
      std::complex<double> sum;
      for (std::size_t i = 0; i < x.size(); ++i)
        sum += x[i] *
               std::polar(1.0, -2 * pi * static_cast<double>(k * i % o.fft_length) / static_cast<double>(n));
      spectrum[k] = std::pow(std::abs(sum), o.power);
    }
    for (std::size_t m = 0; m < o.mels; ++m) {
      const auto corner = [&](std::size_t i) {
        const double low = mels_of(o.min_frequency), high = mels_of(highest);
        return low + (high - low) * static_cast<double>(m + i) / static_cast<double>(o.mels + 1);
      };
      const auto axis = [&](double mels) { return o.slopes == fl::mel_slopes::mels ? mels : hertz_of(mels); };
      double sum = 0;
      for (std::size_t k = 0; k < spectrum.size(); ++k) {
        const double hertz = static_cast<double>(k) * o.sample_rate / static_cast<double>(o.fft_length);
        const double at = o.slopes == fl::mel_slopes::mels ? mels_of(hertz) : hertz;
        const double up = (at - axis(corner(0))) / (axis(corner(1)) - axis(corner(0)));
        const double down = (axis(corner(2)) - at) / (axis(corner(2)) - axis(corner(1)));
        sum += spectrum[k] * std::max(0.0, std::min(up, down));
      }
      if (o.normalize_area) sum *= 2 / (hertz_of(corner(2)) - hertz_of(corner(0)));
      const double clamped = std::max(sum, o.floor);
      out[m * static_cast<std::size_t>(frames) + static_cast<std::size_t>(frame)] =
          o.values == fl::mel_values::linear        ? sum
          : o.values == fl::mel_values::natural_log ? std::log(clamped)
                                                    : (o.power == 1 ? 20 : 10) * std::log10(clamped);
    }
  }
  return out;
}

/// ‖a − b‖ / ‖b‖
double relative_error(std::span<const float> a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double difference = 0, all = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    all += b[i] * b[i];
  }
  return std::sqrt(difference / all);
}

} // namespace

TEST_CASE("spectrograms match their definition") {
  const auto samples = tone(3000);
  const auto check = [&](const char* what, fl::mel_options o) {
    INFO(what);
    if (o.mels == 128) o.mels = 20;
    CHECK(relative_error(spectrogram_of(fl::mel_spectrogram(o), samples), by_definition(o, samples)) < 3e-6);
  };
  check("the defaults", {});
  check("a longer FFT than window", {.fft_length = 512, .window_length = 300, .hop_length = 100});
  check("an odd window", {.fft_length = 512, .window_length = 301, .hop_length = 99});
  check("the shortest window", {.fft_length = 16, .window_length = 1, .hop_length = 3, .mels = 3});
  check("an FFT of odd length", {.fft_length = 401, .hop_length = 160});
  check("an FFT of twice an odd length", {.fft_length = 402, .hop_length = 160});
  check("a short FFT", {.fft_length = 4, .hop_length = 1, .mels = 1});
  check("the shortest FFT",
        {.fft_length = 2, .hop_length = 1, .mels = 1, .values = fl::mel_values::natural_log});
  check("magnitudes", {.power = 1});
  check("to the power of 1.5", {.power = 1.5});
  check("logarithms", {.values = fl::mel_values::natural_log});
  check("decibels", {.values = fl::mel_values::decibels});
  check("decibels of magnitudes", {.power = 1, .values = fl::mel_values::decibels});
  check("a high floor", {.values = fl::mel_values::natural_log, .floor = 0.5});
  for (const auto window : {fl::spectrogram_window::hamming, fl::spectrogram_window::blackman,
                            fl::spectrogram_window::povey, fl::spectrogram_window::rectangular})
    check("another window", {.window = window});
  check("a symmetric window", {.periodic_window = false});
  check("without means", {.remove_mean = true});
  check("pre-emphasized", {.pre_emphasis = 0.97});
  check("not centered", {.centered = false});
  check("not centered, with a short window", {.fft_length = 512, .window_length = 400, .centered = false});
  check("padded with silence", {.padding = fl::spectrogram_padding::silence});
  check("Slaney's mels", {.scale = fl::mel_scale::slaney});
  check("slopes in mels", {.slopes = fl::mel_slopes::mels});
  check("normalized areas", {.scale = fl::mel_scale::slaney, .normalize_area = true});
  check("a range of frequencies", {.min_frequency = 300, .max_frequency = 3400});
  check("a maximum relative to half the rate", {.max_frequency = -1000});
  check("more mels than bins", {.fft_length = 64, .hop_length = 32, .mels = 60});
  check("a hop longer than the window", {.hop_length = 1500});
}

TEST_CASE("Kaldi's filter bank matches its definition, frame by frame") {
  const auto samples = tone(3000);
  const auto o = fl::kaldi_filter_bank(16'000, 20);
  CHECK((o.window_length == 400 && o.hop_length == 160 && o.fft_length == 512));
  const fl::mel_spectrogram features(o);
  CHECK(features.frames(3000) == (3000 - 400) / 160 + 1);
  const auto out = spectrogram_of(features, samples);
  const auto expected = by_definition(o, samples);
  double largest = 0;
  const std::size_t frames = features.frames(3000);
  for (std::size_t m = 0; m < 20; ++m)
    for (std::size_t f = 0; f < frames; ++f)
      largest = std::max(largest, std::abs(double{out[f * 20 + m]} - expected[m * frames + f]));
  CHECK(largest < 1e-4);
}

TEST_CASE("the number of frames is Kaldi's and torchaudio's") {
  CHECK(fl::mel_spectrogram(fl::kaldi_filter_bank(32'000)).frames(160'000) == 498);
  CHECK(fl::mel_spectrogram({.sample_rate = 32'000, .fft_length = 1024, .hop_length = 320}).frames(160'000) ==
        501);
  const fl::mel_spectrogram reflecting({.fft_length = 400});
  CHECK((reflecting.frames(200) == 0 && reflecting.frames(201) == 2 && reflecting.frames(0) == 0));
  const fl::mel_spectrogram silent({.fft_length = 400, .padding = fl::spectrogram_padding::silence});
  CHECK((silent.frames(0) == 0 && silent.frames(1) == 1 && silent.frames(200) == 2));
  const fl::mel_spectrogram odd(
      {.fft_length = 5, .hop_length = 2, .mels = 1, .padding = fl::spectrogram_padding::silence});
  CHECK((odd.frames(1) == 1 && odd.frames(3) == 2));
  const fl::mel_spectrogram uncentered(
      {.fft_length = 400, .window_length = 100, .hop_length = 10, .centered = false});
  CHECK((uncentered.frames(99) == 0 && uncentered.frames(100) == 1 && uncentered.frames(119) == 2));
}

TEST_CASE("a pure tone is in the filter of its frequency") {
  for (const double hertz : {440.0, 2000.0, 7000.0}) {
    std::vector<float> samples(16'000);
    for (std::size_t i = 0; i < samples.size(); ++i)
      samples[i] = static_cast<float>(std::sin(2 * pi * hertz * static_cast<double>(i) / 16'000));
    const fl::mel_spectrogram features({.fft_length = 1024, .hop_length = 256, .mels = 40});
    const auto out = spectrogram_of(features, samples);
    const std::size_t frames = features.frames(samples.size());
    std::size_t loudest = 0;
    for (std::size_t m = 0; m < 40; ++m)
      if (out[m * frames + 30] > out[loudest * frames + 30]) loudest = m;
    // The filter's center is next to the tone.
    const double step = fl::detail::to_mels(8000, fl::mel_scale::htk) / 41;
    const double place = fl::detail::to_mels(hertz, fl::mel_scale::htk) / step - 1;
    CHECK(near(static_cast<double>(loudest), place, 0.7));
  }
}

TEST_CASE("mel scales convert there and back") {
  for (const auto scale : {fl::mel_scale::htk, fl::mel_scale::slaney})
    for (const double hertz : {0.0, 20.0, 999.0, 1000.0, 4000.0, 16'000.0})
      CHECK(near(fl::detail::to_hertz(fl::detail::to_mels(hertz, scale), scale), hertz, 1e-8));
  CHECK(near(fl::detail::to_mels(1000, fl::mel_scale::htk), 999.9855, 0.02));
  CHECK(fl::detail::to_mels(1000, fl::mel_scale::slaney) == 15);
}

TEST_CASE("both layouts have the same values") {
  const auto samples = tone(2777);
  fl::mel_options o{.hop_length = 150, .mels = 7, .values = fl::mel_values::natural_log};
  const auto by_mels = spectrogram_of(fl::mel_spectrogram(o), samples);
  o.layout = fl::spectrogram_layout::frames_mels;
  const fl::mel_spectrogram features(o);
  const auto by_frames = spectrogram_of(features, samples);
  const std::size_t frames = features.frames(samples.size());
  REQUIRE(frames % 4 != 0);
  bool equal = true;
  for (std::size_t m = 0; m < 7; ++m)
    for (std::size_t f = 0; f < frames; ++f) equal = equal && by_mels[m * frames + f] == by_frames[f * 7 + m];
  CHECK(equal);
}

TEST_CASE("a frame doesn't depend on its position") {
  const auto samples = tone(4000);
  fl::mel_options o = fl::kaldi_filter_bank(16'000, 30);
  const fl::mel_spectrogram features(o);
  const auto all = spectrogram_of(features, samples);
  for (std::size_t first = 0; first < 8; ++first)
    for (const std::size_t frames : {1u, 2u, 3u, 4u, 7u}) {
      const auto part =
          spectrogram_of(features, std::span(samples).subspan(first * o.hop_length,
                                                              o.window_length + (frames - 1) * o.hop_length));
      CHECK(part.size() == frames * 30);
      CHECK(std::equal(part.begin(), part.end(), all.begin() + static_cast<std::ptrdiff_t>(first * 30)));
    }
}

TEST_CASE("top_decibels limits the range below the largest value") {
  const auto samples = tone(3000);
  fl::mel_options o{.mels = 20, .values = fl::mel_values::decibels};
  auto expected = spectrogram_of(fl::mel_spectrogram(o), samples);
  const float least = *std::max_element(expected.begin(), expected.end()) - 20;
  CHECK(std::count_if(expected.begin(), expected.end(), [&](float v) { return v < least; }) > 10);
  for (float& v : expected) v = std::max(v, least);
  o.top_decibels = 20;
  CHECK(spectrogram_of(fl::mel_spectrogram(o), samples) == expected);
}

TEST_CASE("silence becomes the logarithm of the floor, and NaN stays NaN") {
  const fl::mel_spectrogram features(fl::kaldi_filter_bank(16'000));
  std::vector<float> samples(16'000);
  for (const float v : spectrogram_of(features, samples))
    CHECK(near(double{v}, std::log(1.1920928955078125e-07), 1e-5));
  samples[8000] = std::numeric_limits<float>::quiet_NaN();
  const auto out = spectrogram_of(features, samples);
  CHECK(std::isnan(out[50 * 128 + 64]));
  CHECK(!std::isnan(out[0]));
}

TEST_CASE("log_of_lanes is as precise as std::log") {
  double worst = 0; // in units of the last place
  for (std::uint32_t bits = 0x00800000; bits < 0x7f800000; bits += 4099) {
    const auto x = std::bit_cast<float>(bits);
    const double expected = std::log(double{x});
    const auto given = double{fl::detail::log_of_lanes(fl::detail::all_lanes(x))[0]};
    const double ulp = std::ldexp(1.0, std::max(std::ilogb(expected), -126) - 23);
    if (expected != 0) worst = std::max(worst, std::abs(given - expected) / ulp);
  }
  INFO(worst << " units");
  CHECK(worst < 2);
  const auto of = [](float x) { return fl::detail::log_of_lanes(fl::detail::all_lanes(x))[3]; };
  CHECK(of(1) == 0);
  CHECK(of(std::numeric_limits<float>::infinity()) == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(of(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("threads share a mel_spectrogram and compute the same as one thread") {
  const fl::mel_spectrogram mel({.sample_rate = 32'000, .fft_length = 1024, .hop_length = 320});
  const fl::mel_spectrogram bank(fl::kaldi_filter_bank(16'000));
  constexpr std::size_t clips = 40, threads = 8;
  std::vector<std::vector<float>> samples, expected;
  for (std::size_t i = 0; i < clips; ++i) {
    samples.push_back(tone(2000 + 137 * i, i));
    expected.push_back(spectrogram_of(i % 2 ? mel : bank, samples[i]));
  }
  std::vector<std::size_t> wrong(threads);
  {
    std::vector<std::jthread> pool;
    for (std::size_t t = 0; t < threads; ++t)
      pool.emplace_back([&, t] {
        for (std::size_t i = 0; i < clips; ++i) {
          const std::size_t clip = (i + 5 * t) % clips;
          wrong[t] += spectrogram_of(clip % 2 ? mel : bank, samples[clip]) != expected[clip];
          // Meanwhile plans are created and destroyed.
          const fl::mel_spectrogram own({.fft_length = 64 + 2 * t + i % 3, .hop_length = 50, .mels = 4});
          wrong[t] += spectrogram_of(own, samples[clip]).empty();
        }
      });
  }
  CHECK(wrong == std::vector<std::size_t>(threads));
}

TEST_CASE("copies compute the same as the original") {
  const auto samples = tone(3000);
  std::vector<float> expected;
  const auto copied = [&] {
    const fl::mel_spectrogram first({.mels = 10});
    expected = spectrogram_of(first, samples);
    return fl::mel_spectrogram(first);
  }();
  CHECK(spectrogram_of(copied, samples) == expected);
  CHECK((copied.options().window_length == 400 && copied.options().max_frequency == 8000));
}

TEST_CASE("invalid options are refused with a clear message") {
  const auto refused = [](std::string_view sentence, const fl::mel_options& o) {
    return throws_saying<std::invalid_argument>(sentence, [&] { fl::mel_spectrogram{o}; });
  };
  CHECK(refused("feedline::mel_spectrogram: sample_rate must be above 0", {.sample_rate = 0}));
  CHECK(refused("sample_rate must be above 0", {.sample_rate = std::nan("")}));
  CHECK(refused("fft_length must be from 2 to 2^24 samples", {.fft_length = 0}));
  CHECK(refused("fft_length must be from 2", {.fft_length = static_cast<std::size_t>(-1)}));
  CHECK(refused("window_length must not be above fft_length", {.fft_length = 400, .window_length = 401}));
  CHECK(refused("hop_length must be from 1", {.hop_length = 0}));
  CHECK(refused("mels must be from 1", {.mels = 0}));
  CHECK(refused("mels must be from 1 to 2^24", {.mels = (std::size_t{1} << 24) + 1}));
  CHECK(refused("min_frequency must not be negative", {.min_frequency = -1}));
  CHECK(refused("max_frequency must not be above half the sample rate", {.max_frequency = 8001}));
  CHECK(refused("min_frequency must be below max_frequency", {.min_frequency = 500, .max_frequency = 400}));
  CHECK(refused("min_frequency must be below max_frequency", {.max_frequency = -8000}));
  CHECK(refused("power must be above 0", {.power = 0}));
  CHECK(refused("floor must be", {.floor = 0}));
  CHECK(refused("top_decibels must not be negative", {.top_decibels = -1}));
  CHECK(refused("pre_emphasis must be finite", {.pre_emphasis = std::nan("")}));
  CHECK(refused("sample_rate must be above 0", fl::kaldi_filter_bank(-1)));

  const fl::mel_spectrogram features({.fft_length = 400, .hop_length = 160, .mels = 10});
  std::vector<float> out(20);
  CHECK(throws_saying<std::invalid_argument>("a clip of 200 samples is too short; it needs 201",
                                             [&] { features(std::vector<float>(200), out); }));
  CHECK(throws_saying<std::invalid_argument>("10 mels of 3 frames, but the output has 20 elements",
                                             [&] { features(std::vector<float>(320), out); }));
}
