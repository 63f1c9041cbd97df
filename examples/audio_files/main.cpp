// SPDX-License-Identifier: MIT
// The pipeline of a training on sound files: makes batches of mel spectrograms from a folder of WAV, FLAC or
// OGG files. The name of each file begins with its class number.
// Usage: audio_files FOLDER [batches]
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <feedline/audio.hpp>
#include <feedline/feedline.hpp>

namespace fl = feedline;

struct example {
  fl::tensor<float> spectrogram; // [64 mels, 101 frames]: a second at 8 kHz, a frame every 10 ms
  std::int32_t label;
};

int main(int count, char** arguments) try {
  if (count < 2)
    throw std::runtime_error("usage: audio_files FOLDER [batches]: FOLDER has WAV, FLAC or OGG files such as "
                             "3_george_2.wav, of class 3");
  constexpr std::size_t rate = 8'000, length = rate;
  const fl::mel_spectrogram spectrogram({.sample_rate = rate,
                                         .fft_length = 512,
                                         .hop_length = 80,
                                         .mels = 64,
                                         .values = fl::mel_values::decibels});

  const auto make = fl::per_worker([&] {
    return [&, decoder = fl::audio_decoder(), resampler = fl::audio_resampler(),
            samples = std::vector<float>(length)](const std::string& file, fl::batch_slot<example>& slot,
                                                  fl::context& context) mutable {
      const fl::audio_clip clip = resampler.resample(decoder.decode(fl::read_file(file)), rate);
      fl::random_crop_or_pad(clip.samples, samples, context.random);
      spectrogram(samples, slot.get<&example::spectrogram>());
      slot.get<&example::label>() = std::stoi(std::filesystem::path(file).filename());
    };
  });
  const auto pipeline =
      fl::files(arguments[1], "**/*.*") | fl::shuffle({.capacity = 10'000}) |
      fl::batch_into<example>(64, make, fl::shapes{{{64, spectrogram.frames(length)}}}, fl::workers{2});

  const long batches = count > 2 ? std::stol(arguments[2]) : 20;
  std::set<std::string> skipped; // a file that can't be read fails in every epoch
  const auto say = [&skipped](const fl::failure& f) {
    if (skipped.insert(f.origin).second) std::fprintf(stderr, "skipped: %s\n", to_string(f).c_str());
  };
  auto loader = pipeline.infinite({.on_error = fl::on_error::skip, .on_failure = say});
  for (long i = 0; i < batches; ++i) {
    const auto batch = loader.next();
    if (!batch) break;
    std::printf("batch %ld: %zu clips, the first has class %d\n", i, batch->size(),
                batch->get<&example::label>()[0]);
  }
  std::fputs(to_string(loader.metrics()).c_str(), stdout);
  return 0;
} catch (const std::exception& error) {

  std::fprintf(stderr, "audio_files: %s\n", error.what());
  return 1;
}
