// SPDX-License-Identifier: MIT
#pragma once
// Opens sound files by their first bytes.
#include <memory>
#include <optional>

#include <feedline/audio/detail/sound_source.hpp>
#include <feedline/audio/detail/wav_file.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The decoder of a sound file in memory, which must outlive the object.
class opened_sound {
 public:
  /// Throws audio_error.
  explicit opened_sound(sound_bytes file);

  sound_source& source() noexcept { return wav_ ? *wav_ : *other_; }

 private:
  void open_chunks(sound_bytes file, const sound_chunks& chunks);
  void open_au(sound_bytes file);
  void open_nist(sound_bytes file);

  // Skips tags and zeros at the beginning.
  static std::size_t begin_of_sound(sound_bytes file);

  // `sound` is what follows tags and zeros.
  [[noreturn]] static void refuse(sound_bytes all, sound_bytes sound);

  std::optional<wav_file> wav_; // here, so that plain WAV files need no memory
  std::unique_ptr<sound_source> other_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_AUDIO)
#include <algorithm>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include <feedline/audio/audio_error.hpp>
#include <feedline/audio/detail/flac_stream.hpp>
#include <feedline/audio/detail/mpeg_file.hpp>
#include <feedline/audio/detail/ogg_file.hpp>
#include <feedline/audio/detail/sound_file.hpp>
#include <feedline/detail/file_kind.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE opened_sound::opened_sound(sound_bytes all) {
  const std::size_t begin = begin_of_sound(all);
  const sound_bytes file = all.subspan(begin);
  if (const auto chunks = sound_chunks::find(file)) {
    open_chunks(file, *chunks);
  } else if (has_text(file, 0, "fLaC")) {
    flac_stream flac = flac_stream::find(file);
    auto sound = std::make_unique<sound_file>("FLAC", std::move(flac.header), flac.frames);
    sound->set_length(flac.length, std::move(flac.damage));
    other_ = std::move(sound);
  } else if (has_text(file, 0, "OggS")) {
    other_ = std::make_unique<ogg_file>(file);
  } else if (has_text(file, 0, ".snd")) {
    open_au(file);
  } else if (has_text(file, 0, "NIST_1A\n")) {
    open_nist(file);
  } else {
    // After a tag, which may be longer than it says.
    const auto found = mpeg_header::find(file, 0, begin > 0 ? std::size_t{1} << 16 : 0);
    if (!found) refuse(all, file);
    other_ = open_mpeg(file.subspan(*found));
  }
}

FEEDLINE_INLINE std::size_t opened_sound::begin_of_sound(sound_bytes file) {
  for (std::size_t at = 0; at < file.size();) {
    if (file[at] == std::byte{}) {
      ++at;
      continue;
    }
    if (file.size() - at < 10 || !has_text(file, at, "ID3")) return at;
    std::size_t size = 0;
    for (std::size_t i = 6; i < 10; ++i)
      size = size << 7 | std::to_integer<std::size_t>(file[at + i] & std::byte{127});
    size += (file[at + 5] & std::byte{0x10}) != std::byte{} ? 20u : 10u; // with a footer
    if (size >= file.size() - at) fail_audio("the file is cut off: it consists of an ID3 tag and no sound");
    at += size;
  }
  fail_audio("the file's " + std::to_string(file.size()) + " bytes are all 0; an audio file was expected");
}

FEEDLINE_INLINE void opened_sound::open_chunks(sound_bytes file, const sound_chunks& chunks) {
  const std::uint64_t tag = chunks.is_aiff || chunks.is_big_endian ? 0 : little_endian(chunks.format, 0, 2);
  if (tag == 0x55 || tag == 0x50) { // MPEG audio
    const auto found = mpeg_header::find(chunks.data, 0, std::size_t{1} << 16);
    if (!found) fail_audio("the WAV file is damaged: it says that it has MP3, but has none");
    other_ = open_mpeg(chunks.data.subspan(*found), chunks.damage);
    return;
  }
  wav_ = wav_file::open(chunks);
  if (wav_) return;
  auto sound =
      std::make_unique<sound_file>(chunks.is_aiff ? "AIFF" : "WAV", chunks.header(file), chunks.data);
  if (!chunks.damage.empty()) sound->set_length({}, chunks.damage);
  else if (const auto frames = sound->facts().frames)
    if (const auto stated = chunks.frames_of_blocks(*frames)) sound->set_length(stated, {});
  other_ = std::move(sound);
}

FEEDLINE_INLINE void opened_sound::open_au(sound_bytes file) {
  constexpr std::size_t fields = 24;
  const std::uint64_t begin = file.size() < fields ? 0 : big_endian(file, 4, 4);
  if (begin < fields || begin > file.size()) fail_audio("the AU file is damaged or cut off in its header");
  const std::size_t rest = file.size() - begin;
  const std::uint64_t stated = big_endian(file, 8, 4);
  const bool is_open = stated == 0 || stated == 0xffffffff;
  const std::uint64_t size = is_open ? rest : std::min<std::uint64_t>(stated, rest);
  std::vector<std::byte> header(file.begin(), file.begin() + fields);
  for (std::size_t i = 0; i < 4; ++i) {
    header[4 + i] = static_cast<std::byte>(fields >> (24 - 8 * i) & 255);
    header[8 + i] = static_cast<std::byte>(is_open ? 255 : size >> (24 - 8 * i) & 255);
  }
  auto sound = std::make_unique<sound_file>("AU", std::move(header), file.subspan(begin, size));
  // Encodings 1 and 27 have 8 bits.
  const std::uint64_t encoding = big_endian(file, 12, 4);
  const std::uint64_t sample = encoding == 3                    ? 2
                               : encoding == 4                  ? 3
                               : encoding == 5 || encoding == 6 ? 4
                               : encoding == 7                  ? 8
                                                                : 1;
  if (!is_open &&
      (stated > rest || (stated < rest && !sound_chunks::may_follow(file.subspan(begin + size),
                                                                    sample * big_endian(file, 20, 4)))))
    sound->set_length({}, "its header says " + std::to_string(stated) + " bytes of samples, and it has " +
                              std::to_string(rest));
  other_ = std::move(sound);
}

FEEDLINE_INLINE void opened_sound::open_nist(sound_bytes file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()),
                              std::min<std::size_t>(file.size(), 1024));
  if (text.find("embedded-shorten") != text.npos)
    fail_audio(
        "the NIST SPHERE file is compressed with shorten, which isn't supported; convert it to WAV, for "
        "example with sph2pipe or ffmpeg");
  auto sound = std::make_unique<sound_file>("NIST", std::vector<std::byte>(), file);
  constexpr std::string_view name = "sample_count -i ";
  std::size_t stated = 0;
  if (const std::size_t at = text.find(name); at != text.npos)
    std::from_chars(text.data() + at + name.size(), text.data() + text.size(), stated);
  if (stated != sound->facts().frames)
    sound->set_length({}, "its header says " + std::to_string(stated) + " frames, and it has " +
                              std::to_string(sound->facts().frames.value_or(0)));
  other_ = std::move(sound);
}

FEEDLINE_INLINE void opened_sound::refuse(sound_bytes all, sound_bytes sound) {
  struct known {
    std::size_t at;
    std::string_view bytes;
    const char* name;
  };

  static constexpr known others[]{{4, "ftyp", "MP4 or M4A"}, {0, "\x1a\x45\xdf\xa3", "WebM or Matroska"},
                                  {0, "caff", "CAF"},        {0, "riff", "Wave64"},
                                  {0, "wvpk", "WavPack"},    {0, "MAC ", "Monkey's Audio"},
                                  {0, "0&\xb2u", "WMA"},     {0, "\xff\xf1", "AAC"},
                                  {0, "\xff\xf9", "AAC"},    {0, "ajkg", "Shorten"}};
  for (const known& other : others)
    if (has_text(all, other.at, other.bytes) || has_text(sound, other.at, other.bytes))
      fail_audio(std::string("the file is ") + other.name +
                 ", which isn't supported; convert it to FLAC or WAV, for example with ffmpeg");
  fail_audio(
      "can't read the file as audio: it doesn't begin like a WAV, FLAC, OGG, MP3, AIFF, AU or NIST file" +
      what_it_is(all));
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
