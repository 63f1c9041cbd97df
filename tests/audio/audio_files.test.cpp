// SPDX-License-Identifier: MIT
// Audio files that other programs wrote.
#include <feedline/audio/audio_decoder.hpp>
#include <feedline/source/files.hpp>

#include "support/audio_files.hpp"
#include "support/catch.hpp"
#include "support/npy.hpp"
#include "support/test_data.hpp"

#include <cmath>
#include <map>

namespace fl = feedline;
using namespace feedline::test;

TEST_CASE("WAV, FLAC and OGG of the same speech have the reference samples", "[shared]") {
  const auto folder = test_data("audio/librispeech");
  if (!folder) return;
  fl::audio_decoder decoder;
  std::map<std::string, int> compared;
  for (const auto& path : audio_files(*folder)) {
    INFO(path.filename().string());
    const auto expected =
        read_npy<std::int16_t>(fl::read_file(std::filesystem::path(path).replace_extension(".npy")));
    const auto clip = decoder.decode(fl::read_file(path));
    CHECK((clip.rate == 16'000 && clip.channels == 1));
    REQUIRE(clip.samples.size() == expected.size());
    double largest = 0; // in steps of 16 bits
    for (std::size_t i = 0; i < expected.size(); ++i)
      largest = std::max(largest, std::abs(32768 * double{clip.samples[i]} - expected[i]));
    CHECK(largest <= (path.extension() == ".ogg" ? 1 : 0));
    ++compared[path.extension().string()];
  }
  CHECK(compared == std::map<std::string, int>{{".flac", 8}, {".ogg", 8}, {".wav", 8}});
}

TEST_CASE("parts of speech files have the samples of the whole file", "[shared]") {
  const auto folder = test_data("audio/librispeech");
  if (!folder) return;
  fl::audio_decoder decoder;
  fl::random_generator random(5);
  for (const auto& path : audio_files(*folder)) {
    const auto file = fl::read_file(path);
    const auto all = decoder.decode(file);
    const std::vector<float> whole(all.samples.begin(), all.samples.end());
    for (int i = 0; i < 10; ++i) {
      fl::audio_range part;
      const auto clip = decoder.decode_range(file, [&](const fl::audio_header& header) {
        part.first = random.below(header.frames);
        part.frames = random.below(header.frames - part.first);
        return part;
      });
      INFO(path.filename().string() << " from " << part.first << ", " << part.frames);
      CHECK(std::equal(clip.samples.begin(), clip.samples.end(),
                       whole.begin() + static_cast<std::ptrdiff_t>(part.first),
                       whole.begin() + static_cast<std::ptrdiff_t>(part.first + part.frames)));
    }
  }
}

TEST_CASE("plain WAV files are decoded to libsndfile's samples", "[shared]") {
  std::size_t compared = 0;
  fl::audio_decoder decoder;
  for (const char* name : {"audio/spoken-digits", "audio/odd", "audio/golden"}) {
    const auto folder = test_data(name);
    if (!folder) return;
    for (const auto& path : audio_files(*folder)) {
      const auto file = fl::read_file(path);
      if (path.extension() != ".wav") continue;
      INFO(path.filename().string());
      fl::audio_clip clip;
      try {
        clip = decoder.decode(file, {.mono = false, .keep_truncated = true});
      } catch (const fl::audio_error&) {
        continue;
      }
      std::vector<float> interleaved = read_sound(file);
      if (path.filename().string().find("24bit-4byte") !=
          std::string::npos) // which libsndfile takes for 32 bits
        interleaved = {-0x60p-23f, 0x5a0cp-23f, 1 - 0x1p-23f, -0x7f92e0p-23f};
      REQUIRE(interleaved.size() == clip.samples.size());
      bool equal = true;
      for (std::size_t c = 0; c < clip.channels; ++c)
        for (std::size_t i = 0; i < clip.frames; ++i)
          equal = equal && clip.channel(c)[i] == interleaved[i * clip.channels + c];
      CHECK(equal);
      ++compared;
    }
  }
  CHECK(compared > 300);
}

TEST_CASE("files have as many frames as ffmpeg 5.1 finds, whole and in parts", "[shared]") {
  // Of most files of a folder, and of those whose names end so
  struct folder {
    const char* name;
    std::size_t frames;
    std::map<std::string, std::size_t> others;
  };

  const std::map<std::string, std::size_t> speech{{"0001", 28'960},  {"0002", 81'120}, {"0009", 35'520},
                                                  {"0010", 63'920},  {"0011", 53'600}, {"0012", 174'960},
                                                  {"0013", 168'960}, {"0014", 68'000}};
  const folder folders[]{{"audio/esc10", 220'544, {{"2-65747-A", 218'880}}},
                         {"audio/librispeech", 0, speech},
                         {"audio/golden", 160'032, {}},
                         {"audio/spoken-digits", 0, {}}};
  fl::audio_decoder decoder;
  std::size_t files = 0, digits = 0;
  for (const folder& f : folders) {
    const auto path_of_folder = test_data(f.name);
    if (!path_of_folder) return;
    for (const auto& path : audio_files(*path_of_folder)) {
      if (path.extension() == ".tsv") continue;
      INFO(path.filename().string());
      const auto file = fl::read_file(path);
      const std::size_t frames = decoder.decode(file).frames;
      ++files;
      if (f.name == std::string("audio/spoken-digits")) digits += frames;
      else {
        const std::string name = path.stem().string();
        auto expected = f.others.find(name);
        if (expected == f.others.end()) expected = f.others.find(name.substr(name.size() - 4));
        CHECK(frames == (expected == f.others.end() ? f.frames : expected->second));
      }
      CHECK(decoder.read_header(file).frames == frames);
      const auto end = decoder.decode_range(file, [&](const fl::audio_header& header) {
        CHECK(header.frames == frames);
        return fl::audio_range{frames - frames / 4, frames / 4};
      });
      CHECK(end.frames == frames / 4);
    }
  }
  CHECK(files == 34 + 24 + 2 + 509);
  CHECK(digits == 1'758'220);
}

TEST_CASE("unusual and broken files are decoded or refused with a clear message", "[shared]") {
  const auto folder = test_data("audio/odd");
  if (!folder) return;
  // The number of frames of the good files.
  const std::map<std::string, std::size_t> readable{
      {"claxon-non_subset.flac", 4096},
      {"claxon-repeated_vorbis_comment.flac", 100},
      {"claxon-short.flac", 4},
      {"hound-nonstandard-01.wav", 1},
      {"hound-pcmwaveformat-16bit-44100Hz-mono-extra.wav", 4},
      {"hound-pcmwaveformat-24bit-4byte-48kHz-stereo.wav", 2},
      {"hound-pcmwaveformat-8bit-44100Hz-mono.wav", 4},
      {"hound-waveformatex-16bit-44100Hz-mono.wav", 4},
      {"hound-waveformatex-8bit-11025Hz-mono.wav", 4},
      {"hound-waveformatex-ieeefloat-44100Hz-mono.wav", 4},
      {"hound-waveformatextensible-ieeefloat-44100Hz-mono.wav", 4},
      {"scipy-wav-test-44100Hz-2ch-32bit-float-be.wav", 441},
      {"scipy-wav-test-48000Hz-2ch-64bit-float-le-wavex.wav", 480},
      {"scipy-wav-test-8000Hz-be-3ch-5S-24bit.wav", 5},
      {"scipy-wav-test-8000Hz-le-2ch-1byteu.wav", 800},
      {"xiph-flac-Prøve.flac", 4000},
      {"xiph-flac-input-SCPAP.flac", 5880},
      {"xiph-flac-input-SCVPAP.flac", 5880},
      {"xiph-flac-input-VA.flac", 5880},
      {"xiph-flac-שלום.flac", 9984}};
  fl::audio_decoder decoder;
  std::size_t read = 0, refused = 0;
  for (const auto& path : audio_files(*folder)) {
    const std::string name = path.filename().string();
    INFO(name);
    const auto file = fl::read_file(path);
    const auto expected = readable.find(name);
    try {
      const auto clip = decoder.decode(file);
      ++read;
      REQUIRE(expected != readable.end());
      CHECK(clip.frames == expected->second);
      CHECK(decoder.read_header(file).frames == expected->second);
      const fl::audio_range half{expected->second / 2, expected->second - expected->second / 2};
      const auto part = decoder.decode_range(file, [&](const fl::audio_header&) { return half; });
      CHECK(part.frames == half.frames);
    } catch (const fl::audio_error& error) {
      ++refused;
      CHECK(expected == readable.end());
      CHECK(std::string(error.what()).starts_with("feedline::audio_decoder: "));
    }
    // All of these files are small, and so is their content, whatever their headers say.
    std::size_t kept = 0;
    try {
      kept = decoder.decode(file, {.keep_truncated = true, .max_samples = ~std::uint64_t{0}}).frames;
    } catch (const fl::audio_error&) {
    }
    CHECK(kept < 10'000);
  }
  CHECK(read == readable.size());
  CHECK(refused == 20);

  const auto cut_off = fl::read_file(*folder + "/scipy-wav-test-44100Hz-le-1ch-4bytes-early-eof.wav");
  CHECK(decoder.decode(cut_off, {.keep_truncated = true}).frames == 236);
}
