// SPDX-License-Identifier: MIT
#include <feedline/audio/audio_decoder.hpp>

#include "support/audio_files.hpp"
#include "support/catch.hpp"
#include "support/throws_saying.hpp"

#include <cmath>
#include <limits>
#include <optional>
#include <thread>
#include <type_traits>

// libsndfile 1.2 leaks memory of libvorbis for each Vorbis file with damaged headers.
extern "C" const char* __lsan_default_suppressions();

extern "C" const char* __lsan_default_suppressions() { return "leak:libvorbis\n"; }

namespace fl = feedline;
using namespace feedline::test;

namespace {

constexpr int flac = SF_FORMAT_FLAC | SF_FORMAT_PCM_16, ogg = SF_FORMAT_OGG | SF_FORMAT_VORBIS;

std::vector<float> copy(const fl::audio_clip& clip) { return {clip.samples.begin(), clip.samples.end()}; }

double largest_difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(double{a[i]} - double{b[i]}));
  return largest;
}

/// Compares without printing thousands of samples on failure.
bool equal(std::span<const float> a, std::span<const float> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

constexpr fl::audio_options planar{.mono = false}, keeping{.keep_truncated = true};

} // namespace

// A worker's function holds one.
static_assert(std::is_nothrow_move_constructible_v<fl::audio_decoder> &&
              !std::is_copy_constructible_v<fl::audio_decoder>);

TEST_CASE("WAV files of every depth are decoded exactly") {
  fl::audio_decoder decoder;
  for (const std::size_t bits : {8u, 16u, 24u, 32u})
    for (const bool extensible : {false, true}) {
      INFO(bits << " bits, extensible: " << extensible);
      const std::int64_t top = std::int64_t{1} << (bits - 1);
      const std::vector<std::int64_t> values{0, 1, -1, top - 1, -top, top / 2, -top / 3, 77};
      const auto file = write_wav({.bits = bits, .extensible = extensible}, as_integers(values, bits));
      const auto clip = decoder.decode(file);
      CHECK((clip.channels == 1 && clip.frames == 8 && clip.rate == 8000));
      std::vector<float> expected;
      for (const auto v : values)
        expected.push_back(static_cast<float>(static_cast<double>(v) / static_cast<double>(top)));
      CHECK(copy(clip) == expected);
      CHECK(copy(clip) == read_sound(file));
    }
}

TEST_CASE("WAV files of floats are decoded exactly") {
  fl::audio_decoder decoder;
  const std::vector<float> values{0, -0.25f, 1.5f, -20000, std::numeric_limits<float>::infinity(), 1e-30f};
  bytes data(values.size() * 4);
  std::memcpy(data.data(), values.data(), data.size());
  for (const bool extensible : {false, true}) {
    const auto file = write_wav({.tag = 3, .bits = 32, .extensible = extensible}, data);
    CHECK(copy(decoder.decode(file, {.keep_nonfinite = true})) == values);
    CHECK(read_sound(file) == values);
  }
}

TEST_CASE("NaN and infinities are refused unless they are wanted") {
  fl::audio_decoder decoder;
  for (const float odd : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()})
    for (const int format : {SF_FORMAT_WAV | SF_FORMAT_FLOAT, SF_FORMAT_AIFF | SF_FORMAT_FLOAT}) {
      auto samples = tone(40'000);
      samples[30'001] = odd;
      const auto file = write_sound(format, samples, 2);
      for (const bool mono : {true, false}) {
        CHECK(throws_saying<fl::audio_error>("set audio_options::keep_nonfinite",
                                             [&] { decoder.decode(file, {.mono = mono}); }));
        const auto kept = decoder.decode(file, {.mono = mono, .keep_nonfinite = true});
        CHECK(kept.frames == 20'000);
        CHECK(!std::isfinite(kept.channel(mono ? 0 : 1)[15'000]));
      }
      // A part without them can be read.
      const auto part = [](const fl::audio_header&) { return fl::audio_range{15'001, 4999}; };
      CHECK(decoder.decode_range(file, part).frames == 4999);
    }
}

TEST_CASE("channels are planar or mixed") {
  fl::audio_decoder decoder;
  const std::vector<float> interleaved{0.5f, -0.5f, 0.25f, 0.75f, -0.125f, 0.125f};
  for (const int format : {SF_FORMAT_WAV | SF_FORMAT_PCM_16, flac, SF_FORMAT_AIFF | SF_FORMAT_PCM_24}) {
    const auto file = write_sound(format, interleaved, 2);
    const auto both = decoder.decode(file, planar);
    CHECK((both.channels == 2 && both.frames == 3));
    CHECK(copy(both) == std::vector<float>{0.5f, 0.25f, -0.125f, -0.5f, 0.75f, 0.125f});
    CHECK(both.channel(1)[1] == 0.75f);
    const auto mono = decoder.decode(file);
    CHECK((mono.channels == 1 && mono.frames == 3));
    CHECK(copy(mono) == std::vector<float>{0, 0.5f, 0});
    const auto header = decoder.read_header(file, planar);
    CHECK((header.channels == 2 && header.frames == 3 && header.rate == 8000));
  }
  // More channels than fit into a block.
  const auto samples = tone(std::size_t{1024} * 40);
  const auto file = write_sound(SF_FORMAT_WAV | SF_FORMAT_FLOAT, samples, 1024);
  const auto all = decoder.decode(file, planar);
  CHECK((all.channels == 1024 && all.frames == 40 && all.channel(1023)[39] == samples.back()));
  float sum = 0;
  for (std::size_t c = 0; c < 1024; ++c) sum += all.channel(c)[7];
  CHECK(decoder.decode(file).samples[7] == sum / 1024);
}

TEST_CASE("other formats are decoded exactly") {
  fl::audio_decoder decoder;
  const auto samples = tone(3000);
  for (const int format :
       {flac, SF_FORMAT_FLAC | SF_FORMAT_PCM_24, SF_FORMAT_AIFF | SF_FORMAT_PCM_16,
        SF_FORMAT_AU | SF_FORMAT_PCM_32, SF_FORMAT_NIST | SF_FORMAT_PCM_16,
        SF_FORMAT_WAVEX | SF_FORMAT_PCM_24, SF_FORMAT_RF64 | SF_FORMAT_PCM_16,
        SF_FORMAT_WAV | SF_FORMAT_DOUBLE, SF_FORMAT_WAV | SF_FORMAT_PCM_16 | SF_ENDIAN_BIG}) {
    INFO(std::hex << format);
    const auto file = write_sound(format, samples);
    CHECK(equal(decoder.decode(file).samples, samples));
  }
  const auto vorbis = decoder.decode(write_sound(ogg, samples, 1, 16000));
  CHECK((vorbis.frames == 3000 && vorbis.rate == 16000));
}

TEST_CASE("a part of a file has the samples of the whole file") {
  fl::audio_decoder decoder;
  constexpr std::size_t frames = 30'000;
  const auto samples = tone(2 * frames);
  for (const int format : {SF_FORMAT_WAV | SF_FORMAT_PCM_16, SF_FORMAT_WAV | SF_FORMAT_DOUBLE, flac, ogg,
                           SF_FORMAT_AIFF | SF_FORMAT_PCM_16})
    for (const auto& options : {fl::audio_options{}, planar}) {
      INFO(std::hex << format << (options.mono ? " mono" : " planar"));
      const auto file = write_sound(format, samples, 2, 44100);
      const auto all = decoder.decode(file, options);
      REQUIRE(all.frames == frames);
      const auto whole = copy(all);
      for (const fl::audio_range part :
           {fl::audio_range{0, 100}, fl::audio_range{1, frames - 1}, fl::audio_range{4096, 1},
            fl::audio_range{12'345, 6789}, fl::audio_range{frames - 5, 5}, fl::audio_range{frames, 0},
            fl::audio_range{7, 0}}) {
        INFO(part.first << ", " << part.frames);
        std::size_t announced = 0;
        const auto clip = decoder.decode_range(
            file,
            [&](const fl::audio_header& header) {
              announced = header.frames;
              return part;
            },
            options);
        CHECK((announced == frames && clip.frames == part.frames && clip.rate == 44100));
        for (std::size_t c = 0; c < clip.channels; ++c) {
          const auto expected = std::span(whole).subspan(c * frames + part.first, part.frames);
          CHECK(largest_difference(clip.channel(c), expected) == 0);
        }
      }
    }
}

TEST_CASE("a part outside the file is refused") {
  fl::audio_decoder decoder;
  const auto file = write_wav({}, as_integers({1, 2, 3}, 16));
  for (const fl::audio_range part :
       {fl::audio_range{0, 4}, fl::audio_range{4, 0}, fl::audio_range{2, ~std::size_t{0}}})
    CHECK(throws_saying<std::invalid_argument>("the file has 3 frames", [&] {
      decoder.decode_range(file, [&](const fl::audio_header&) { return part; });
    }));
  CHECK_THROWS_AS(decoder.decode_range(file, [](const fl::audio_header&) -> fl::audio_range { throw 7; }),
                  int);
  CHECK(decoder.decode(file).frames == 3);
}

TEST_CASE("files that are cut off are refused, or kept up to the end") {
  fl::audio_decoder decoder;
  const auto samples = tone(40'000);
  for (const int format : {SF_FORMAT_WAV | SF_FORMAT_PCM_16, flac}) {
    INFO(std::hex << format);
    const auto file = write_sound(format, samples, 1, 16000);
    const auto part = cut(file, file.size() * 2 / 3);
    CHECK(throws_saying<fl::audio_error>("of 40000 frames", [&] { decoder.decode(part); }));
    CHECK(throws_saying<fl::audio_error>("set audio_options::keep_truncated", [&] { decoder.decode(part); }));
    const auto kept = decoder.decode(part, keeping);
    CHECK((kept.frames > 20'000 && kept.frames < 30'000));
    CHECK(largest_difference(kept.samples, std::span(samples).first(kept.frames)) == 0);
    // A part before the end can be decoded.
    const auto choose = [](const fl::audio_header&) { return fl::audio_range{100, 5000}; };
    CHECK(largest_difference(decoder.decode_range(part, choose).samples,
                             std::span(samples).subspan(100, 5000)) == 0);
    // The decoder stays usable.
    CHECK(equal(decoder.decode(file).samples, samples));
  }
}

TEST_CASE("a WAV file of unknown length is read to its end") {
  fl::audio_decoder decoder;
  const auto data = as_integers({1, 2, 3, 4, 5}, 16);
  for (const std::size_t size : {std::size_t{0xffffffff}, std::size_t{0x7ffff000}})
    CHECK(decoder.decode(write_wav({.data_bytes = size}, data)).frames == 5);
  CHECK(throws_saying<fl::audio_error>("5 of 6 frames",
                                       [&] { decoder.decode(write_wav({.data_bytes = 12}, data)); }));
}

TEST_CASE("a FLAC file of unknown length is read to its end") {
  fl::audio_decoder decoder;
  const auto samples = tone(20'000);
  auto file = write_sound(flac, samples, 1, 16000);
  // The lower 36 of these bits of its first block are the number of samples.
  REQUIRE(file[4 + 4 + 17] == std::byte{20'000 & 255});
  file[4 + 4 + 13] &= std::byte{0xf0};
  for (std::size_t i = 14; i < 18; ++i) file[4 + 4 + i] = {};
  CHECK(equal(decoder.decode(file).samples, samples));
  CHECK(decoder.read_header(file).frames == 20'000);
  const auto part = decoder.decode_range(file, [](const fl::audio_header& header) {
    return fl::audio_range{header.frames - 10, 10};
  });
  CHECK(largest_difference(part.samples, std::span(samples).last(10)) == 0);
  CHECK(throws_saying<fl::audio_error>("more than audio_options::max_samples, 19999",
                                       [&] { decoder.decode(file, {.max_samples = 19'999}); }));
  CHECK(decoder.decode(file, {.max_samples = 20'000}).frames == 20'000);
}

TEST_CASE("max_samples limits decoding, and memory is allocated only for decoded samples") {
  fl::audio_decoder decoder;
  const auto silence = write_sound(flac, std::vector<float>(4'000'000));
  CHECK(silence.size() < 100'000);
  CHECK(throws_saying<fl::audio_error>(
      "4000000 frames of 1 channels are more than audio_options::max_samples, 1000000",
      [&] { decoder.decode(silence, {.max_samples = 1'000'000}); }));
  const auto part = [](const fl::audio_header&) { return fl::audio_range{3'000'000, 1000}; };
  CHECK(decoder.decode_range(silence, part, {.max_samples = 1000}).frames == 1000);

  // The header has 2^36 - 1 frames, the file 20000: memory is allocated only for those.
  auto lies = write_sound(flac, tone(20'000), 1, 16000);
  lies[4 + 4 + 13] |= std::byte{0x0f};
  for (std::size_t i = 14; i < 18; ++i) lies[4 + 4 + i] = std::byte{0xff};
  CHECK(throws_saying<fl::audio_error>("68719476735 frames of 1 channels are more than",
                                       [&] { decoder.decode(lies); }));
  CHECK(throws_saying<fl::audio_error>("only 20000 of 68719476735 frames can be decoded",
                                       [&] { decoder.decode(lies, {.max_samples = ~std::uint64_t{0}}); }));
  CHECK(decoder.decode(lies, {.keep_truncated = true, .max_samples = ~std::uint64_t{0}}).frames == 20'000);
}

TEST_CASE("files other than audio are refused with a clear message") {
  fl::audio_decoder decoder;
  CHECK(throws_saying<fl::audio_error>("feedline::audio_decoder: the file is empty (0 bytes)",
                                       [&] { decoder.decode({}); }));
  const bytes zeros(1000);
  CHECK(throws_saying<fl::audio_error>("the file's 1000 bytes are all 0", [&] { decoder.decode(zeros); }));
  for (const auto& header : {wav_header{.channels = 0}, wav_header{.rate = 0}, wav_header{.bits = 17},
                             wav_header{.tag = 3, .bits = 16}, wav_header{.tag = 999}})
    try {
      decoder.decode(write_wav(header, bytes(8)));
    } catch (const fl::audio_error& error) {
      CHECK(std::string(error.what()).starts_with("feedline::audio_decoder: "));
    }
  // A file without samples is valid.
  CHECK(decoder.decode(write_wav({}, {})).frames == 0);
}

TEST_CASE("each thread has its own decoder, and its own errors") {
  const auto samples = tone(1000);
  const auto good = write_sound(flac, samples);
  const bytes bad(100), worse = cut(good, 12);
  std::vector<std::string> texts(2);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < 2; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 200; ++i) {
          if (!equal(fl::decode_audio(good).samples, samples)) texts[t] += "samples ";
          try {
            fl::decode_audio(t == 0 ? bad : worse);
          } catch (const fl::audio_error& error) {
            if (texts[t].find(error.what()) == std::string::npos) texts[t] += error.what();
          }
        }
      });
  }
  CHECK(texts[0] == "feedline::audio_decoder: the file's 100 bytes are all 0; an audio file was expected");
  CHECK(texts[1] != texts[0]);
  CHECK(texts[1].find("feedline", 1) == std::string::npos); // always the same error
}

TEST_CASE("damaged files are read or refused") {
  fl::audio_decoder decoder;
  const auto samples = tone(2000);
  std::size_t read = 0, refused = 0;
  for (const int format : {SF_FORMAT_WAV | SF_FORMAT_PCM_16, SF_FORMAT_WAV | SF_FORMAT_IMA_ADPCM,
                           SF_FORMAT_WAV | SF_FORMAT_FLOAT, flac, ogg, SF_FORMAT_AIFF | SF_FORMAT_PCM_24,
                           SF_FORMAT_AU | SF_FORMAT_PCM_16, SF_FORMAT_RF64 | SF_FORMAT_PCM_16}) {
    const auto file = write_sound(format, samples, 2);
    fl::random_generator random(fl::stable_hash(format));
    for (int round = 0; round < 150; ++round) {
      auto damaged = round % 3 == 0 ? cut(file, random.below(file.size())) : file;
      // Damages headers most often.
      for (std::uint64_t i = random.below(8); i-- > 0 && !damaged.empty();) {
        const auto within = random.chance(0.7) ? std::min<std::size_t>(damaged.size(), 100) : damaged.size();
        damaged[random.below(within)] = static_cast<std::byte>(random() & 255);
      }
      const fl::audio_options options{
          .mono = round % 2 == 0, .keep_truncated = round % 5 == 0, .max_samples = 1 << 20};
      try {
        const auto clip = decoder.decode_range(
            damaged,
            [&](const fl::audio_header& header) {
              if (round % 4 == 0)
                return fl::audio_range{header.frames / 2, std::min<std::size_t>(header.frames / 4, 500)};
              return fl::audio_range{0, header.frames};
            },
            options);
        ++read;
        if (clip.samples.size() != clip.frames * clip.channels) FAIL("a clip of another size");
      } catch (const fl::audio_error& error) {
        ++refused;
        if (!std::string(error.what()).starts_with("feedline::audio_decoder: ")) FAIL(error.what());
      }
    }
  }
  CHECK(read > 100);
  CHECK(refused > 100);
}
