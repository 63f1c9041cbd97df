// SPDX-License-Identifier: MIT
// A file is decoded to all that it holds, or is refused.
#include <feedline/audio/audio_decoder.hpp>

#include "support/audio_files.hpp"
#include "support/catch.hpp"
#include "support/flac_writer.hpp"
#include "support/mp3_writer.hpp"
#include "support/throws_saying.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include <sys/mman.h>

namespace fl = feedline;
using namespace feedline::test;
using namespace std::string_view_literals;

namespace {

constexpr int flac = SF_FORMAT_FLAC | SF_FORMAT_PCM_16, vorbis = SF_FORMAT_OGG | SF_FORMAT_VORBIS,
              opus = SF_FORMAT_OGG | SF_FORMAT_OPUS;
constexpr fl::audio_options planar{.mono = false}, keeping{.keep_truncated = true};

/// Compares without printing thousands of samples on failure.
bool equal(const std::vector<float>& a, const std::vector<float>& b) { return a == b; }

std::vector<float> decoded(const bytes& file, const fl::audio_options& options = {}) {
  fl::audio_decoder decoder;
  const auto clip = decoder.decode(file, options);
  return {clip.samples.begin(), clip.samples.end()};
}

/// The length, if the header, the whole file and parts of it agree on it and on the samples.
std::size_t agreed_length(const bytes& file, const fl::audio_options& options = {}) {
  fl::audio_decoder decoder;
  const auto header = decoder.read_header(file, options);
  const auto all = decoded(file, options);
  REQUIRE(all.size() == header.frames * header.channels);
  fl::random_generator random(3);
  for (int i = 0; i < 5; ++i) {
    fl::audio_range part{.first = random.below(header.frames + 1)};
    part.frames = random.below(header.frames - part.first + 1);
    const auto clip = decoder.decode_range(
        file,
        [&](const fl::audio_header& h) {
          CHECK(h.frames == header.frames);
          return part;
        },
        options);
    REQUIRE(clip.frames == part.frames);
    for (std::size_t c = 0; c < clip.channels; ++c)
      REQUIRE(std::equal(clip.channel(c).begin(), clip.channel(c).end(),
                         all.begin() + static_cast<std::ptrdiff_t>(c * header.frames + part.first)));
  }
  return header.frames;
}

/// Whether the header, the whole file and a part of it are refused with these words.
bool is_refused(const bytes& file, std::string_view words) {
  fl::audio_decoder decoder;
  const auto first = [](const fl::audio_header&) { return fl::audio_range{}; };
  return throws_saying<fl::audio_error>(words, [&] { decoder.read_header(file); }) &&
         throws_saying<fl::audio_error>(words, [&] { decoder.decode(file); }) &&
         throws_saying<fl::audio_error>(words, [&] { decoder.decode_range(file, first); });
}

bytes joined(bytes first, const bytes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

bytes text(std::string_view s) {
  bytes all;
  for (const char c : s) all.push_back(static_cast<std::byte>(c));
  return all;
}

/// Writes a little-endian number over a file's bytes.
void put(bytes& file, std::size_t at, std::uint64_t value, int count = 4) {
  for (; count-- > 0; value >>= 8) file.at(at++) = static_cast<std::byte>(value & 255);
}

bytes chunk(std::string_view name, std::size_t size, const bytes& content, bool big_endian = false) {
  bytes all = joined(text(name), bytes(4));
  put(all, 4, size);
  if (big_endian) std::reverse(all.begin() + 4, all.end());
  return joined(all, content);
}

/// Puts a chunk before the one of this name.
bytes with_chunk(bytes file, std::string_view before, const bytes& added) {
  const bytes name = text(before);
  file.insert(std::search(file.begin(), file.end(), name.begin(), name.end()), added.begin(), added.end());
  return file;
}

/// Where the pages of an OGG file begin, and its end.
std::vector<std::size_t> pages_of(const bytes& file) {
  std::vector<std::size_t> all{0};
  const bytes name = text("OggS");
  for (auto at = file.begin();
       (at = std::search(at + 1, file.end(), name.begin(), name.end())) != file.end();)
    all.push_back(static_cast<std::size_t>(at - file.begin()));
  all.push_back(file.size());
  return all;
}

bytes without(bytes file, std::size_t begin, std::size_t end) {
  file.erase(file.begin() + static_cast<std::ptrdiff_t>(begin),
             file.begin() + static_cast<std::ptrdiff_t>(end));
  return file;
}

std::vector<std::int64_t> steps(std::size_t count, unsigned bits) {
  std::vector<std::int64_t> all(count);
  for (std::size_t i = 0; i < count; ++i)
    all[i] = (static_cast<std::int64_t>(i * 37 % 200) - 100) * (std::int64_t{1} << (bits - 8));
  return all;
}

} // namespace

TEST_CASE("damaged lists of chunks are refused, and the content of unneeded chunks isn't read") {
  const auto samples = tone(300);
  const bytes lie(40, std::byte{0xff});
  for (const auto& [format, data] : {std::pair{SF_FORMAT_WAV | SF_FORMAT_PCM_16, "data"},
                                     {SF_FORMAT_WAV | SF_FORMAT_IMA_ADPCM, "data"},
                                     {SF_FORMAT_WAV | SF_FORMAT_PCM_16 | SF_ENDIAN_BIG, "data"},
                                     {SF_FORMAT_RF64 | SF_FORMAT_PCM_16, "data"},
                                     {SF_FORMAT_AIFF | SF_FORMAT_PCM_16, "SSND"}}) {
    INFO(std::hex << format);
    const bool big_endian = data == std::string("SSND") || (format & SF_ENDIAN_BIG) != 0;
    const auto file = write_sound(format, samples);
    for (const char* name :
         {"LIST", "fmt ", "fact", "COMM", "bext", "cart", "cue ", "smpl", "\xff\xff\xff\xff"})
      for (const std::size_t size : {std::size_t{0xffffffff}, std::size_t{0x7ffffff0}, file.size() + 100})
        CHECK(is_refused(with_chunk(file, data, chunk(name, size, lie, big_endian)), "the file is damaged"));
    const auto length = agreed_length(file);
    for (const char* name : {"LIST", "bext", "cart", "cue ", "smpl", "MARK", "INST"})
      CHECK(agreed_length(with_chunk(file, data, chunk(name, 40, lie, big_endian))) == length);
  }
  // 120 bytes that libsndfile reads for minutes.
  auto endless =
      with_chunk(write_wav({}, bytes(8)), "data", chunk("LIST", 0xffffffff, bytes(60, std::byte{0xff})));
  CHECK(is_refused(endless, "a chunk of 4294967295 bytes at byte 36, but only 76 bytes follow"));
}

TEST_CASE("WAV files without samples or without a format are refused") {
  const auto file = write_wav({}, bytes(100));
  CHECK(is_refused(cut(file, 30), "is damaged"));
  CHECK(is_refused(cut(file, 36), "no chunk of samples"));
  CHECK(is_refused(without(file, 12, 36), "no chunk with the format"));
  CHECK(is_refused(joined(file, without(file, 0, 36)), "two chunks of samples"));
}

TEST_CASE("a WAV file that was never closed is read to its end") {
  const auto data = as_integers({1, 2, 3, 4, 5}, 16);
  const std::vector<float> expected{0x1p-15f, 0x2p-15f, 0x3p-15f, 0x4p-15f, 0x5p-15f};
  for (const std::uint64_t riff : {0u, 36u, 0xffffffffu})
    for (const std::size_t size : {0u, 0xffffffffu, 0x7ffff000u}) {
      INFO(riff << ", " << size);
      auto file = write_wav({.data_bytes = size}, data);
      put(file, 4, riff);
      CHECK(agreed_length(file) == 5);
      CHECK(equal(decoded(file), expected));
    }
  // But one that was closed without samples has none.
  auto file = joined(write_wav({}, {}), chunk("LIST", 4, text("INFO")));
  put(file, 4, file.size() - 8);
  CHECK(agreed_length(file) == 0);

  // Other formats.
  const auto samples = tone(1000);
  for (const auto& [format, at, size] :
       {std::tuple{SF_FORMAT_AU | SF_FORMAT_PCM_16, 8, 0u},
        {SF_FORMAT_AU | SF_FORMAT_PCM_16, 8, 0xffffffff},
        {SF_FORMAT_WAV | SF_FORMAT_PCM_16 | SF_ENDIAN_BIG, 40, 0xffffffff}}) {
    auto open = write_sound(format, samples);
    put(open, static_cast<std::size_t>(at), size);
    CHECK(equal(decoded(open), samples));
  }
  auto aiff = write_sound(SF_FORMAT_AIFF | SF_FORMAT_PCM_16, samples);
  const bytes name = text("SSND");
  put(aiff,
      static_cast<std::size_t>(std::search(aiff.begin(), aiff.end(), name.begin(), name.end()) -
                               aiff.begin()) +
          4,
      0);
  put(aiff, 4, 0);
  CHECK(equal(decoded(aiff), samples));
  // 64-bit sizes that were never set.
  auto rf64 = write_sound(SF_FORMAT_RF64 | SF_FORMAT_PCM_16, samples);
  put(rf64, 20 + 8, 0, 8);
  CHECK(equal(decoded(rf64), samples));
}

TEST_CASE("samples after the end that the header says are an error") {
  const auto data = as_integers({1, 200, 300, 400, 500, 600}, 16);
  const auto file = write_wav({.data_bytes = 8}, data);
  CHECK(is_refused(file, "more than the 8 bytes of samples follow"));
  CHECK(decoded(file, keeping).size() == 4);
  // Other chunks, tags, zeros, and a forgotten byte aren't samples.
  const auto whole = write_wav({}, data);
  for (const bytes& end :
       {chunk("LIST", 4, text("INFO")), chunk("id3 ", 100, {}), text("TAGtitle"), text("TAG\0\0"sv),
        text("ID3\4\0\0\0\0\0\4abcd"sv), bytes(7), bytes(1), bytes(1, std::byte{0xff})})
    CHECK(agreed_length(joined(whole, end)) == 6);
  CHECK(is_refused(joined(whole, bytes(2, std::byte{0xff})), "more than the 12 bytes of samples follow"));
  const auto stereo = write_wav({.bits = 24, .channels = 2}, bytes(12));
  CHECK(agreed_length(joined(stereo, bytes(5, std::byte{0xff}))) == 2);
  CHECK(is_refused(joined(stereo, bytes(6, std::byte{0xff})), "more than the 12 bytes of samples follow"));
  const auto aiff = write_sound(SF_FORMAT_AIFF | SF_FORMAT_PCM_24, tone(1000));
  CHECK(agreed_length(joined(aiff, bytes(2, std::byte{0xff}))) == 1000);
  CHECK(is_refused(joined(aiff, bytes(3, std::byte{0xff})), "bytes of samples follow"));
  const auto odd = write_wav({.bits = 8}, bytes(5, std::byte{200}));
  CHECK(agreed_length(joined(odd, chunk("LIST", 4, text("INFO")))) == 5);
  CHECK(agreed_length(joined(joined(odd, bytes(1)), chunk("LIST", 4, text("INFO")))) == 5);
  const auto whole_au = write_sound(SF_FORMAT_AU | SF_FORMAT_PCM_16, tone(1000));
  for (const bytes& end : {bytes(100), bytes(1, std::byte{0xff}), text("TAG\0\0"sv)})
    CHECK(agreed_length(joined(whole_au, end)) == 1000);
  const auto au = joined(whole_au, bytes(100, std::byte{0xff}));
  CHECK(is_refused(au, "its header says 2000 bytes of samples, and it has 2100"));
  CHECK(is_refused(cut(au, 1000), "its header says 2000 bytes"));
  CHECK(decoded(au, keeping).size() == 1000);
  const auto nist = write_sound(SF_FORMAT_NIST | SF_FORMAT_PCM_16, tone(1000));
  CHECK(is_refused(cut(nist, 2024), "its header says 1000 frames, and it has 500"));
  CHECK(decoded(cut(nist, 2024), keeping).size() == 500);
}

TEST_CASE("a WAV or AIFF file that SoX wrote to a pipe is read to its end") {
  // The largest size that SoX writes, rounded to whole frames.
  for (const std::size_t channels : {1u, 2u}) {
    const std::size_t frame = 3 * channels;
    const auto data = as_integers({1, 2, 3, 4, 5, 6}, 24);
    const auto wav =
        write_wav({.bits = 24, .channels = channels, .data_bytes = 0x7ffff000 / frame * frame}, data);
    CHECK(agreed_length(wav, planar) == 6 / channels);
    const auto samples = tone(1000);
    auto aiff = write_sound(SF_FORMAT_AIFF | SF_FORMAT_PCM_24, samples, static_cast<int>(channels));
    const bytes name = text("SSND");
    const auto at = std::search(aiff.begin(), aiff.end(), name.begin(), name.end()) - aiff.begin();
    put(aiff, static_cast<std::size_t>(at) + 4, 0x7f000000 / frame * frame + 8);
    std::reverse(aiff.begin() + at + 4, aiff.begin() + at + 8);
    CHECK(agreed_length(aiff, planar) == 1000 / channels);
    if (channels == 1) CHECK(equal(decoded(aiff), samples));
  }
}

TEST_CASE("a WAV file that is cut off isn't refused for the length that its header says") {
  const auto file = write_wav({.data_bytes = 0x70000000}, bytes(100));
  fl::audio_decoder decoder;
  CHECK(throws_saying<fl::audio_error>(
      "its header says 1879048192 bytes of samples, but only 100 follow; to keep",
      [&] { decoder.decode(file); }));
  CHECK(agreed_length(file, keeping) == 50);
}

TEST_CASE("24 bits in the low end of 32, as arecord writes them, have their loudness, whole and in parts") {
  const auto file_of = [](const std::vector<std::int32_t>& values) {
    bytes data;
    for (const std::int32_t v : values) {
      data.resize(data.size() + 4);
      put(data, data.size() - 4, static_cast<std::uint32_t>(v));
    }
    bytes file = write_wav({.bits = 32, .channels = 2}, data);
    put(file, 34, 24, 2); // and blocks of 8 bytes
    return file;
  };
  constexpr std::int32_t half = 1 << 22;
  const std::vector<std::int32_t> low{half, -half, 256, -1, -(1 << 23), (1 << 23) - 1};
  CHECK(decoded(file_of(low), planar) ==
        std::vector<float>{0.5f, 0x1p-15f, -1, -0.5f, -0x1p-23f, 1 - 0x1p-23f});
  CHECK(agreed_length(file_of(low), planar) == 3);
  std::vector<std::int32_t> unsigned_low = low; // without the sign in the highest byte
  for (std::int32_t& v : unsigned_low) v &= 0xffffff;
  CHECK(equal(decoded(file_of(unsigned_low), planar), decoded(file_of(low), planar)));
  // In the high end.
  std::vector<std::int32_t> high{half, -half, 256, -1, -(1 << 22), (1 << 22) - 1};
  for (std::int32_t& v : high) v *= 256;
  CHECK(decoded(file_of(high), planar) ==
        std::vector<float>{0.5f, 0x1p-15f, -0.5f, -0.5f, -0x1p-23f, 0.5f - 0x1p-23f});
  CHECK(agreed_length(file_of({0, 0, 0, 0}), planar) == 2);
  CHECK(throws_saying<fl::audio_error>("only 16 follow", [&] { decoded(cut(file_of(low), 44 + 16)); }));
}

TEST_CASE("the fact chunk says how many frames of the last block of a compressed WAV file are sound") {
  for (const int encoding : {SF_FORMAT_IMA_ADPCM, SF_FORMAT_MS_ADPCM, SF_FORMAT_GSM610}) {
    INFO(encoding);
    const auto file = write_sound(SF_FORMAT_WAV | encoding, tone(3'000));
    const bytes name = text("fact");
    const auto at = static_cast<std::size_t>(std::search(file.begin(), file.end(), name.begin(), name.end()) -
                                             file.begin());
    REQUIRE(at < file.size());
    const auto with = [&](std::uint64_t frames) {
      bytes other = file;
      put(other, at + 8, frames);
      return other;
    };
    const auto all = decoded(with(0)); // not stated
    REQUIRE(all.size() >= 3'000);
    CHECK(decoded(with(all.size() + 1'000)).size() == all.size());
    CHECK(decoded(with(10)).size() == all.size()); // it can't be right
    for (const std::size_t frames : {all.size() - 1, all.size() - 100}) {
      CHECK(agreed_length(with(frames)) == frames);
      CHECK(equal(decoded(with(frames)), {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(frames)}));
    }
    CHECK(is_refused(cut(with(all.size() - 1), file.size() - 40), "bytes of samples, but only"));
  }
}

TEST_CASE("files that stand for others, or have other encodings, are named") {
  CHECK(is_refused(text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"),
                   "it is a Git LFS pointer: fetch the file itself with `git lfs pull`"));
  CHECK(is_refused(text("\x89PNG\r\n\x1a\n and more"), "it is a PNG image"));
  bytes nist = text("NIST_1A\n   1024\nsample_coding -s26 pcm,embedded-shorten-v2.00\nend_head\n");
  nist.resize(2'000, std::byte{7});
  CHECK(is_refused(nist, "compressed with shorten"));
  CHECK(is_refused(text("ajkg\2 and more"), "the file is Shorten"));
  for (const auto& [begin, name] : {std::pair("\x7f"
                                              "FLAC\1\0\0\1fLaC"sv,
                                              "the file is FLAC in OGG"),
                                    std::pair("Speex   1.2"sv, "the file is Speex in OGG")}) {
    bytes page = joined(text("OggS\0\6"sv), bytes(20)); // the first and last one of its stream
    page = joined(joined(page, bytes{std::byte{1}, static_cast<std::byte>(begin.size())}), text(begin));
    std::uint32_t crc = 0;
    for (const std::byte b : page) {
      crc ^= std::to_integer<std::uint32_t>(b) << 24;
      for (int bit = 0; bit < 8; ++bit) crc = crc << 1 ^ ((crc >> 31) != 0 ? 0x04c11db7 : 0);
    }
    put(page, 22, crc);
    CHECK(is_refused(page, name));
  }
}

TEST_CASE("files of other encodings that are cut off are refused, or kept up to the end") {
  for (const int format : {SF_FORMAT_WAV | SF_FORMAT_IMA_ADPCM, SF_FORMAT_WAV | SF_FORMAT_ULAW,
                           SF_FORMAT_AIFF | SF_FORMAT_PCM_24, SF_FORMAT_WAV | SF_FORMAT_DOUBLE}) {
    INFO(std::hex << format);
    const auto file = write_sound(format, tone(20'000));
    CHECK(is_refused(cut(file, file.size() / 2), "bytes of samples, but only"));
    const auto kept = decoded(cut(file, file.size() / 2), keeping).size();
    INFO(kept);
    CHECK((kept > 8000 && kept < 12'000));
  }
}

TEST_CASE("a cut WAV file that is kept has the length of its data") {
  const auto file = cut(write_wav({}, as_integers({1, 2, 3, 4, 5, 6}, 16)), 44 + 9);
  CHECK(agreed_length(file, keeping) == 4);
}

TEST_CASE("a WAV file with more than 4 GiB has all of its samples") {
  // The size in its header has 32 bits. Memory that isn't read isn't used.
  constexpr std::size_t samples = (std::size_t{1} << 32) + 2000;
  void* const memory = ::mmap(nullptr, 44 + samples, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  const auto header = write_wav({.data_bytes = 2000}, {});
  std::copy(header.begin(), header.end(), static_cast<std::byte*>(memory));
  static_cast<std::byte*>(memory)[44 + samples - 1] = std::byte{0x40};
  fl::audio_decoder decoder;
  std::size_t frames = 0;
  const auto clip =
      decoder.decode_range({static_cast<std::byte*>(memory), 44 + samples}, [&](const fl::audio_header& h) {
        frames = h.frames;
        return fl::audio_range{h.frames - 2, 2};
      });
  CHECK(frames == samples / 2);
  CHECK((clip.frames == 2 && clip.samples[0] == 0 && clip.samples[1] == 0.5f));
  ::munmap(memory, 44 + samples);
}

TEST_CASE("the length of a FLAC file is that of its blocks") {
  const auto samples = tone(20'000);
  const auto file = write_sound(flac, samples, 1, 16000);
  const auto stating = [&](std::uint64_t total) {
    auto other = file;
    for (std::size_t i = 0; i < 4; ++i) other[25 - i] = static_cast<std::byte>(total >> 8 * i & 255);
    return other;
  };
  for (const std::uint64_t total : {0u, 1u, 1000u, 19'999u, 20'000u}) {
    INFO(total);
    CHECK(agreed_length(stating(total)) == 20'000);
    CHECK(equal(decoded(stating(total)), samples));
    // Zeros and tags may follow.
    CHECK(agreed_length(joined(stating(total), bytes(1000))) == 20'000);
    CHECK(agreed_length(joined(stating(total), joined(text("TAG"), bytes(125, std::byte{'x'})))) == 20'000);
    CHECK(agreed_length(joined(chunk("ID3\3", 0, joined(bytes(1), bytes{std::byte{5}})),
                               joined(bytes(5), stating(total)))) == 20'000);
  }
  const bytes footer = text("ID3\4\0\x10\0\0\0\0"
                            "3DI\4\0\x10\0\0\0\0"sv);
  CHECK(agreed_length(joined(footer, file)) == 20'000);
  fl::audio_decoder decoder;
  CHECK(throws_saying<fl::audio_error>(
      "only 20000 of 20001 frames can be decoded (it ends after 20000 frames; its header says 20001)",
      [&] { decoder.decode(stating(20'001)); }));
  CHECK(agreed_length(stating(20'001), keeping) == 20'000);
}

TEST_CASE("a FLAC file of unknown length that is cut off is refused, or kept") {
  const auto values = steps(5000, 16);
  for (const std::size_t total : {0u, 5000u}) {
    const auto file = write_flac(values, {.stated_total = total});
    for (const std::size_t bytes_left : {file.size() - 1, file.size() / 2, file.size() / 3}) {
      const auto part = cut(file, bytes_left);
      fl::audio_decoder decoder;
      CHECK(throws_saying<fl::audio_error>("it doesn't end with a complete block",
                                           [&] { decoder.decode(part); }));
      if (total == 0) CHECK(is_refused(part, "set audio_options::keep_truncated"));
      const auto kept = agreed_length(part, keeping);
      CHECK((kept % 500 == 0 && kept >= 1000 && kept < 5000));
    }
  }
}

TEST_CASE("a part of a longer FLAC stream is read from its beginning") {
  CHECK(agreed_length(write_flac(steps(2300, 16), {.first_block = 20})) == 2300);
  CHECK(agreed_length(write_flac(steps(2300, 16), {.first_block = 20, .stated_total = 100'000})) == 2300);
}

TEST_CASE("FLAC files of 12 and 20 bits are decoded exactly, those of 15 and 32 bits are refused by name") {
  for (const unsigned bits : {8u, 12u, 16u, 20u, 24u}) {
    INFO(bits);
    const auto values = steps(1700, bits);
    const auto file = write_flac(values, {.bits = bits, .stated_total = values.size()});
    REQUIRE(agreed_length(file) == values.size());
    const auto samples = decoded(file);
    bool equal = true;
    for (std::size_t i = 0; i < values.size(); ++i)
      equal = equal && samples[i] == static_cast<float>(static_cast<double>(values[i]) /
                                                        static_cast<double>(std::int64_t{1} << (bits - 1)));
    CHECK(equal);
  }
  for (const unsigned bits : {15u, 32u})
    CHECK(is_refused(write_flac(steps(600, bits), {.bits = bits}),
                     "samples of " + std::to_string(bits) + " bits"));
}

TEST_CASE("an OGG file without its last page is refused, or kept") {
  const auto samples = tone(40'000);
  for (const int format : {vorbis, opus}) {
    INFO(std::hex << format);
    const auto file = write_sound(format, samples, 1, 16000);
    const auto pages = pages_of(file);
    REQUIRE(pages.size() > 4);
    CHECK(agreed_length(file) == 40'000);
    CHECK(is_refused(cut(file, file.size() / 2), "it is cut off in the page at byte"));
    CHECK(is_refused(cut(file, file.size() - 1), "it is cut off in the page at byte"));
    const auto part = cut(file, pages[pages.size() - 2]);
    CHECK(is_refused(part,
                     "the page that ends a stream is missing before byte " + std::to_string(part.size())));
    const auto kept = agreed_length(part, keeping);
    CHECK((kept > 0 && kept < 40'000));
    // Zeros and tags may follow.
    CHECK(agreed_length(joined(file, bytes(1000))) == 40'000);
    CHECK(agreed_length(joined(file, joined(text("TAG"), bytes(125, std::byte{'x'})))) == 40'000);
  }
}

TEST_CASE("an OGG file with a missing or damaged page is refused") {
  const auto file = write_sound(vorbis, tone(100'000), 1, 16000);
  const auto pages = pages_of(file);
  REQUIRE(pages.size() > 6);
  const std::size_t third = pages[pages.size() - 4], fourth = pages[pages.size() - 3];
  CHECK(is_refused(without(file, third, fourth), "pages are missing before byte " + std::to_string(third)));
  auto damaged = file;
  damaged[third + 100] ^= std::byte{1};
  CHECK(is_refused(damaged, "there is a damaged page at byte " + std::to_string(third)));
  CHECK(decoded(damaged, keeping).size() > 50'000);
}

TEST_CASE("of the damaged bytes of a FLAC or OGG file a part notices those that its samples depend on") {
  const auto samples = tone(20'000);
  const fl::audio_range part{7000, 3000};
  fl::audio_decoder decoder;
  const auto part_of = [&](const bytes& file) {
    const auto clip = decoder.decode_range(file, [&](const fl::audio_header&) { return part; });
    return std::vector<float>(clip.samples.begin(), clip.samples.end());
  };
  for (const int format : {flac, vorbis}) {
    INFO(std::hex << format);
    const auto file = write_sound(format, samples, 1, 16000);
    const auto right = part_of(file);
    std::size_t wrong = 0, refused = 0;
    for (std::size_t at = format == flac ? 42 : 0; at < file.size(); at += 61) {
      auto damaged = file;
      damaged[at] ^= std::byte{4};
      try {
        wrong += !equal(part_of(damaged), right);
      } catch (const fl::audio_error&) {
        ++refused;
      }
    }
    CHECK(wrong == 0);
    CHECK(refused > 50);
  }
}

TEST_CASE("an OGG file of damaged pages is refused without a checksum of each") {
  // Each page may have 65,307 bytes, and the next one begins 7 bytes later.
  bytes pages;
  for (int i = 0; i < 150'000; ++i)
    for (const char c : "OggS\xff\xff\xff"sv) pages.push_back(static_cast<std::byte>(c));
  CHECK(is_refused(pages, "OGG"));
  const auto file = write_sound(vorbis, tone(40'000), 1, 16000);
  CHECK(is_refused(joined(file, pages), "there is a damaged page at byte " + std::to_string(file.size())));
  CHECK(decoded(joined(file, pages), keeping).size() == 40'000);
}

TEST_CASE("all streams of a chained OGG file are decoded") {
  for (const int format : {vorbis, opus}) {
    const auto first = write_sound(format, tone(8000), 2, 16000),
               second = write_sound(format, tone(30'000, 2), 2, 16000);
    const auto chain = joined(joined(first, second), first);
    CHECK(agreed_length(chain, planar) == 4000 + 15'000 + 4000);
    const auto all = decoded(chain), part = decoded(second);
    CHECK(std::equal(part.begin(), part.end(), all.begin() + 4000));
    CHECK(is_refused(cut(chain, chain.size() - 100), "it is cut off in the page"));
    CHECK(is_refused(joined(cut(second, pages_of(second).end()[-2]), first),
                     "the page that ends a stream is missing"));
    const auto other = joined(first, write_sound(format, tone(8000), 1, 16000));
    CHECK(is_refused(other, "stream 2 has 1 channels of 16000 frames per second instead of 2 of 16000"));
    CHECK(decoded(other, keeping).size() == 4000);
    CHECK(is_refused(joined(first, write_sound(format, tone(8000), 2, 24000)),
                     "stream 2 has 2 channels of 24000"));
    // Cut off before its second stream has any sound.
    const auto pages = pages_of(second);
    for (const std::size_t rest :
         {std::size_t{3}, std::size_t{20}, pages[1] - 1, pages[1], pages[1] + 20, pages[1] + 60}) {
      INFO(rest);
      const auto short_chain = cut(chain, first.size() + rest);
      CHECK(agreed_length(short_chain, {.mono = false, .keep_truncated = true}) == 4000);
      if (rest > 3) CHECK(is_refused(short_chain, "the file is cut off or damaged"));
    }
  }
}

#ifdef FEEDLINE_AUDIO_MPG123

TEST_CASE("an MP3 file has the length of its frames, whatever else it has") {
  for (const bool mono : {true, false})
    for (const bool is_44100 : {true, false}) {
      const mp3_options o{.mono = mono, .is_44100 = is_44100};
      const std::size_t frames = 50 * (is_44100 ? 1152 : 576);
      const auto file = write_mp3(50, o);
      CHECK(agreed_length(file, planar) == frames);
      CHECK(fl::audio_decoder().read_header(file, planar).channels == (mono ? 1 : 2));
      const auto samples = decoded(file);

      bytes tag = joined(text("ID3\3"), bytes(6 + 3000));
      tag[8] = std::byte{3000 >> 7};
      tag[9] = std::byte{3000 & 127};
      bytes with_footer = joined(tag, text("3DI\4\0\x10\0\0\0\0"sv));
      with_footer[5] = std::byte{0x10};
      bytes lying = tag; // it says that it is shorter
      lying[8] = std::byte{1};
      std::fill(lying.begin() + 500, lying.end(), std::byte{0x55});
      bytes picture = tag;
      std::fill(picture.begin() + 10, picture.end(), std::byte{0xff});
      for (const bytes& begin :
           {tag, joined(tag, bytes(1000)), bytes(77), with_footer, joined(tag, tag), lying, picture}) {
        CHECK(agreed_length(joined(begin, file), planar) == frames);
        CHECK(equal(decoded(joined(begin, file)), samples));
      }
      for (const bytes& end : {joined(text("TAG"), bytes(125)), bytes(1000), text("APETAGEX and more")})
        CHECK(equal(decoded(joined(file, end)), samples));

      // In a WAV file.
      CHECK(equal(decoded(write_wav({.tag = 0x55, .bits = 0}, file)), samples));
    }
}

TEST_CASE("joined MP3 files are decoded to their end") {
  const auto mono = write_mp3(20, {}), stereo = write_mp3(30, {.mono = false});
  CHECK(agreed_length(joined(mono, mono)) == 40 * 576);
  CHECK(agreed_length(joined(mono, stereo)) == 50 * 576);
  CHECK(agreed_length(joined(stereo, mono), planar) == 50 * 576);
  // Both have a header, and the first says that it ends.
  const auto with_header = write_mp3(20, {.stated_total = 20});
  CHECK(agreed_length(with_header) > 19 * 576); // without what the decoder adds
  CHECK(agreed_length(joined(with_header, with_header)) >= 40 * 576);
  const auto other_rate = joined(mono, write_mp3(20, {.is_44100 = true}));
  fl::audio_decoder decoder;
  CHECK(throws_saying<fl::audio_error>(
      "it continues with 1 channels of 44100 frames per second instead of 1 of 22050",
      [&] { decoder.decode(other_rate); }));
  CHECK(decoder.decode(other_rate, keeping).frames > 15 * 576);
}

TEST_CASE("an MP3 file of which blocks are damaged is refused, or kept, with a header or without") {
  constexpr std::size_t block = 208;
  for (const std::size_t stated : {0u, 51u}) {
    const auto file = write_mp3(50, {.stated_total = stated});
    const auto damaged = [&](std::size_t begin, std::size_t size, std::byte with) {
      bytes other = file;
      std::fill_n(other.begin() + static_cast<std::ptrdiff_t>(begin), size, with);
      return other;
    };
    for (const std::byte with : {std::byte(), std::byte{0x55}}) {
      const auto zeros = damaged(10 * block + 50, 3 * block, with);
      CHECK(is_refused(zeros, stated == 0
                                  ? "624 bytes at byte 2288 aren't MPEG audio, in place of about 3 blocks"
                                  : "its header says 51 blocks, and it has"));
      CHECK(decoded(zeros, keeping).size() >= 45 * 576);
    }
    // A changed bit of the header of a block, also of the last one.
    for (const std::size_t number : {10u, 49u})
      for (const int bit : {0x80, 0x10}) { // of the beginning, and of the version
        bytes flipped = file;
        flipped[number * block + 1] ^= static_cast<std::byte>(bit);
        CHECK(is_refused(flipped, "block"));
        if (bit == 0x10) continue;
        if (stated == 0)
          CHECK(is_refused(flipped, "208 bytes at byte " + std::to_string(number * block) +
                                        " aren't MPEG audio, in place of about 1 blocks"));
        CHECK(decoded(flipped, keeping).size() >= 48 * 576);
      }
  }
  // Between joined files.
  const auto file = write_mp3(20, {}), with_header = write_mp3(20, {.stated_total = 20});
  CHECK(agreed_length(joined(joined(file, joined(text("TAG"), bytes(125))), file)) == 40 * 576);
  CHECK(agreed_length(joined(joined(with_header, bytes(500)), with_header)) >= 40 * 576);
  CHECK(is_refused(joined(joined(file, bytes(500)), file), "500 bytes at byte 4160 aren't MPEG audio"));
}

TEST_CASE("MP3 files of a free bit rate are decoded, and refused if they are damaged") {
  for (const bool is_44100 : {true, false}) {
    const std::size_t frames = is_44100 ? 1152 : 576;
    const mp3_options o{.is_44100 = is_44100, .is_free = true};
    const auto file = write_mp3(50, o);
    CHECK(agreed_length(file) == 50 * frames);
    CHECK(equal(decoded(file), decoded(write_mp3(50, {.is_44100 = is_44100}))));
    CHECK(agreed_length(joined(bytes(77), file)) == 50 * frames);
    CHECK(is_refused(cut(file, file.size() - 100), "it is cut off in the block at byte"));
    bytes damaged = file;
    std::fill_n(damaged.begin() + 3'000, 700, std::byte());
    CHECK(is_refused(damaged, "aren't MPEG audio, in place of about"));
  }
}

TEST_CASE("an MP3 file with fewer frames than its header says is refused, or kept") {
  const auto file = write_mp3(50, {.stated_total = 50});
  CHECK(agreed_length(file) > 49 * 576);                                 // without what the decoder adds
  CHECK(agreed_length(write_mp3(50, {.stated_total = 51})) == 50 * 576); // which counts the header
  CHECK(agreed_length(write_mp3(50, {.stated_total = 30})) == 50 * 576);
  const auto part = cut(file, file.size() / 2);
  CHECK(is_refused(part, "its header says 50 blocks, and it has"));
  const auto kept = agreed_length(part, keeping);
  CHECK((kept > 20 * 576 && kept < 26 * 576));
}

TEST_CASE("an MP3 file that is cut off in its last block, or lacks it, is refused, or kept") {
  for (const bool is_44100 : {true, false}) {
    const std::size_t frames = is_44100 ? 1152 : 576, block = 208;
    const auto file = write_mp3(50, {.is_44100 = is_44100});
    for (const std::size_t lost : {std::size_t{1}, block / 2, block - 4, block - 2, block - 1}) {
      INFO(lost);
      const auto part = cut(file, file.size() - lost);
      CHECK(is_refused(part, "it is cut off in the block at byte 10192"));
      CHECK(agreed_length(part, keeping) == 49 * frames);
      const auto with_header = write_mp3(50, {.is_44100 = is_44100, .stated_total = 50});
      CHECK(is_refused(cut(with_header, with_header.size() - lost),
                       "it is cut off in the block at byte 10400"));
    }
    // The header also says the number of bytes.
    const auto stating = [&](std::size_t blocks) {
      auto other = write_mp3(50, {.is_44100 = is_44100, .stated_total = blocks});
      const std::size_t fields = 4 + (is_44100 ? 17 : 9) + 4;
      other[fields + 3] = std::byte{3};
      put(other, fields + 8, other.size());
      std::reverse(other.begin() + static_cast<std::ptrdiff_t>(fields + 8),
                   other.begin() + static_cast<std::ptrdiff_t>(fields + 12));
      return other;
    };
    const auto whole = stating(50);
    CHECK(agreed_length(whole) == decoded(write_mp3(50, {.is_44100 = is_44100, .stated_total = 50})).size());
    CHECK(agreed_length(stating(51)) == 50 * frames); // the first one is counted
    const auto part = cut(whole, whole.size() - block);
    CHECK(is_refused(part, "its header says 50 blocks, and it has 49"));
    CHECK(agreed_length(part, keeping) == 49 * frames);
    // In a WAV file that is cut off between two blocks.
    const auto wav = write_wav({.tag = 0x55, .bits = 0}, file);
    const auto cut_wav = cut(wav, wav.size() - 10 * block);
    CHECK(is_refused(cut_wav, "its header says 10400 bytes of samples, but only 8320 follow"));
    CHECK(agreed_length(cut_wav, keeping) == 40 * frames);
  }
}

TEST_CASE("what only looks like an MP3 file is refused") {
  bytes file(5000, std::byte{'x'});
  file[0] = file[2000] = std::byte{0xff};
  file[1] = file[2001] = std::byte{0xfb};
  CHECK(is_refused(file, "can't read the file as audio"));
  CHECK(is_refused(joined(text("ID3\3\0\0\0\0\0\4abcd"sv), file), "can't read the file as audio"));
  bytes only_tag = joined(text("ID3\3"), bytes(6 + 100));
  only_tag[9] = std::byte{100};
  CHECK(is_refused(only_tag, "consists of an ID3 tag and no sound"));
  CHECK(is_refused(joined(text("ID3\3\0\0\0\0\0\4abcd"sv), text("\xff\xf1\x50\x80"sv)), "the file is AAC"));
  CHECK(is_refused(write_wav({.tag = 0x55, .bits = 0}, bytes(1000)), "it says that it has MP3"));
}

#else

TEST_CASE("without libmpg123, MP3 files are refused") {
  CHECK(is_refused(write_mp3(20, {}), "build feedline with libmpg123"));
  CHECK(is_refused(write_wav({.tag = 0x55, .bits = 0}, write_mp3(20, {})), "build feedline with libmpg123"));
}

#endif
