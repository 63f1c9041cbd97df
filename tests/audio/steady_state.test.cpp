// SPDX-License-Identifier: MIT
// The steady state of audio: no allocation per clip.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <feedline/audio.hpp>
#include <feedline/feedline.hpp>

#include "support/audio_files.hpp"
#include "support/catch.hpp"
#include "support/counted_allocations.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

/// The allocations of the second and later calls.
template <class Call>
std::uint64_t once_warm(Call call) {
  call();
  const std::uint64_t before = allocations;
  for (int i = 0; i < 5; ++i) call();
  return allocations - before;
}

constexpr std::size_t mels = 40, length = 16'000;

fl::mel_options log_mel() {
  return {.fft_length = 512, .hop_length = 160, .mels = mels, .values = fl::mel_values::natural_log};
}

struct example {
  fl::tensor<float, mels, length / 160 + 1> spectrogram;
};

} // namespace

TEST_CASE("a decoder allocates nothing for a WAV file as long as an earlier one, or shorter") {
  fl::audio_decoder decoder;
  const auto samples = tone(20'000);
  for (const auto& options : {fl::audio_options{}, fl::audio_options{.mono = false}}) {
    const auto file = write_sound(SF_FORMAT_WAV | SF_FORMAT_PCM_16, samples, 2);
    const auto smaller = write_sound(SF_FORMAT_WAV | SF_FORMAT_FLOAT, tone(500));
    CHECK(once_warm([&] {
            decoder.decode(file, options);
            decoder.decode(smaller, options);
            decoder.decode_range(
                file,
                [](const fl::audio_header&) {
                  return fl::audio_range{50, 100};
                },
                options);
          }) == 0);
  }
}

TEST_CASE("for other files, little but libsndfile allocates memory") {
  fl::audio_decoder decoder;
  const auto file = write_sound(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, tone(20'000), 2);
  decoder.decode(file);
  std::uint64_t before = allocations;
  decoder.decode(file);
  const std::uint64_t ours = allocations - before;
  before = allocations;
  read_sound(file);
  CHECK(ours <= allocations - before + 3);
}

TEST_CASE("a spectrogram allocates nothing, for any length of the FFT") {
  const auto samples = tone(length);
  for (const std::size_t fft_length : {400u, 401u, 402u, 512u, 1024u, 2048u, 6000u}) {
    const fl::mel_spectrogram features({.fft_length = fft_length, .mels = mels});
    std::vector<float> out(mels * features.frames(length));
    CHECK(once_warm([&] { features(samples, out); }) == 0);
    CHECK(once_warm([&] {
            features(std::span(samples).first(8000), std::span(out).first(mels * features.frames(8000)));
          }) == 0);
  }
  // Also after a larger one.
  const fl::mel_spectrogram features(log_mel());
  std::vector<float> out(mels * features.frames(length));
  const std::uint64_t before = allocations;
  features(samples, out);
  CHECK(allocations == before);
}

TEST_CASE("augmentations allocate nothing") {
  auto samples = tone(1000);
  const auto other = tone(1000, 2);
  fl::random_generator random(1);
  CHECK(once_warm([&] {
          fl::random_gain{}(samples, random);
          fl::random_polarity{}(samples, random);
          fl::random_time_shift{}(samples, random);
          fl::random_white_noise{}(samples, random);
          fl::add_noise(samples, other, 20);
          fl::mixup{}(samples, other, random);
          fl::random_crop_or_pad(other, samples, random);
          fl::center_crop_or_pad(other, samples);
          fl::spec_augment{}({samples, 20, 50, fl::spectrogram_layout::mels_frames}, random);
        }) == 0);
}

TEST_CASE("a pipeline from files to batches allocates nothing per clip") {
  const watchdog guard("generated clips");
  std::vector<bytes> files;
  for (std::size_t i = 0; i < 64; ++i)
    files.push_back(write_sound(SF_FORMAT_WAV | SF_FORMAT_PCM_16, tone(10'000 + 200 * i, i), 1, 16'000));
  const fl::mel_spectrogram features(log_mel());
  std::vector<std::size_t> indices(files.size());
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = i;
  const auto load = fl::per_worker([&] {
    return [&, decoder = fl::audio_decoder(), resampler = fl::audio_resampler(),
            clip = std::vector<float>(length)](std::size_t i, fl::batch_slot<example>& slot,
                                               fl::context& context) mutable {
      const auto decoded = resampler.resample(decoder.decode(files[i]), 16'000);
      fl::random_crop_or_pad(decoded.samples, clip, context.random);
      features(clip, slot.get<&example::spectrogram>());
    };
  });
  auto loader = (fl::from(indices) | fl::batch_into<example>(8, load, fl::workers{2})).infinite();
  std::uint64_t fewest = ~std::uint64_t{0};
  for (int epoch = 0; epoch < 40 && fewest > 7; ++epoch) {
    const std::uint64_t before = allocations;
    for (int i = 0; i < 8; ++i) loader.next();
    fewest = std::min<std::uint64_t>(fewest, allocations - before);
  }
  INFO(fewest << " allocations in the epoch of the fewest");
  CHECK(fewest <= 7); // for 64 clips; starting an epoch allocates a little
}
