// SPDX-License-Identifier: MIT
// What test_python_audio.py compares with: the pipeline of the example audio_training, in C++.
//
//   audio_reference sounds OUT                             writes one tone as OUT.wav, .flac and .ogg, and OUT.mp3 if feedline reads it
//   audio_reference arrow OUT {LABEL FILE}...              writes the files as rows; the label `-` is null
//   audio_reference train|eval OUT SEED BATCHES FILE...    writes the spectrograms of that many batches
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <feedline/arrow.hpp>
#include <feedline/audio.hpp>
#include <feedline/feedline.hpp>

#include "../../examples/audio_training/features.hpp"
#include "../../examples/audio_training/options.hpp"
#include "support/arrow_writer.hpp"
#include "support/audio_files.hpp"
#include "support/mp3_writer.hpp"

namespace fl = feedline;

namespace {

void write_bytes(const std::string& out, const fl::test::bytes& bytes) {
  std::ofstream(out, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

void write_sounds(const std::string& out) {
  const std::vector<float> samples = fl::test::tone(6000);
  write_bytes(out + ".wav", fl::test::write_sound(SF_FORMAT_WAV | SF_FORMAT_PCM_16, samples));
  write_bytes(out + ".flac", fl::test::write_sound(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, samples));
  write_bytes(out + ".ogg", fl::test::write_sound(SF_FORMAT_OGG | SF_FORMAT_VORBIS, samples));
#ifdef FEEDLINE_AUDIO_MPG123
  write_bytes(out + ".mp3", fl::test::write_mp3(30, {}));
#endif
}

void write_rows(const std::string& out, std::span<char*> given) {
  std::vector<std::optional<std::string>> files;
  std::vector<std::optional<std::int64_t>> labels;
  for (std::size_t i = 0; i + 1 < given.size(); i += 2) {
    const std::string label = given[i];
    labels.push_back(label == "-" ? std::nullopt : std::optional<std::int64_t>(std::stoll(label)));
    std::ifstream file(given[i + 1], std::ios::binary);
    files.push_back(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  fl::test::arrow_writer writer({fl::test::binary_part("audio"), fl::test::int64_part("label")});
  writer.batch({fl::test::text_data(files), fl::test::number_data(labels)});
  std::ofstream(out, std::ios::binary) << writer.file();
}

/// The sizes are those of small() in the test.
void write_spectrograms(bool trains, const std::string& out, std::uint64_t seed, int batches,
                        const std::vector<std::string>& files) {
  options o;
  o.rate = 8000;
  o.seconds = 0.5;
  o.mels = 16;
  o.fft = 256;
  o.hop = 80;
  const fl::mel_spectrogram spectrogram(o.spectrogram());
  const auto make = fl::per_worker([&] {
    return [trains, maker = feature_maker(spectrogram, o.clip_length())](
               const clip_row& row, example_slot& slot, fl::context& context) mutable {
      if (trains) maker.for_training(row, slot, context.random);
      else maker.for_evaluation(row, slot);
    };
  });
  const auto pipeline =
      fl::arrow_rows<clip>(files, {"audio", "label"}) | fl::shuffle({.capacity = 6, .min_fill = 3}) |
      fl::prefetch(5) |
      fl::batch_into<example>(4, make, fl::shapes{{{o.mels, spectrogram.frames(o.clip_length())}}},
                              fl::workers{3}, fl::name{"spectrogram"});
  auto loader = pipeline.infinite({.seed = seed});
  std::ofstream file(out, std::ios::binary);
  for (int i = 0; i < batches; ++i) {
    const auto batch = loader.next().value();
    const fl::tensor<float>& values = batch.get<&example::spectrogram>();
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
  }
}

} // namespace

int main(int count, char** arguments) {
  try {
    const std::span<char*> given(arguments, static_cast<std::size_t>(count));
    const std::string what = given[1];
    if (what == "sounds") write_sounds(given[2]);
    else if (what == "arrow") write_rows(given[2], given.subspan(3));
    else
      write_spectrograms(what == "train", given[2], std::stoull(given[3]), std::stoi(given[4]),
                         {given.begin() + 5, given.end()});
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "audio_reference: %s\n", error.what());
    return 1;
  }
}
