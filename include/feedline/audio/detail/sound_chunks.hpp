// SPDX-License-Identifier: MIT
#pragma once
// The chunks of WAV and AIFF files.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <feedline/audio/detail/sound_bytes.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The chunks of a WAV (RIFF, RIFX, RF64) or AIFF file that its samples need. libsndfile sees no others: sizes
/// in damaged ones make it read for ever. Sources of the layouts: "Multiple Channel Audio Data and WAVE Files",
/// Microsoft, 2007; EBU Tech 3306; "Audio Interchange File Format AIFF-C", Apple, 1991.
struct sound_chunks {
  sound_bytes format; ///< "fmt " or "COMM"
  sound_bytes fact;   ///< "fact" or "FVER"; may be empty
  sound_bytes data;   ///< "data" or "SSND", as far as the file has it
  std::uint64_t promised =
      0; ///< the size of the data in the header; the rest of the file if it was never set
  bool is_aiff = false;
  bool is_big_endian = false;
  std::string damage; ///< a contradiction in the file, or an empty text

  /// Returns nullopt for another kind of file. Throws audio_error if the chunks can't be right.
  static std::optional<sound_chunks> find(sound_bytes file);

  /// The bytes of a file before the data, with only these chunks and the size that the data has.
  std::vector<std::byte> header(sound_bytes file) const;

  /// The length that "fact" states of samples that are compressed in blocks, if the last of the `decoded` frames only fill
  /// up the last block; nothing otherwise.
  std::optional<std::size_t> frames_of_blocks(std::size_t decoded) const noexcept;

  /// Whether bytes after the samples can be something else than forgotten samples.
  static bool may_follow(sound_bytes rest, std::uint64_t frame_bytes) noexcept;

 private:
  std::uint64_t number(sound_bytes file, std::size_t at, std::size_t size) const noexcept {
    return is_big_endian ? big_endian(file, at, size) : little_endian(file, at, size);
  }

  void add_data(sound_bytes file, std::size_t begin, std::uint64_t size, bool is_open);
  void check_following(sound_bytes file, std::size_t at, bool is_padded);
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_AUDIO)
#include <algorithm>

#include <feedline/audio/audio_error.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::optional<sound_chunks> sound_chunks::find(sound_bytes file) {
  sound_chunks found;
  const bool is_64 = has_text(file, 0, "RF64") || has_text(file, 0, "BW64");
  found.is_aiff = has_text(file, 0, "FORM") && (has_text(file, 8, "AIFF") || has_text(file, 8, "AIFC"));
  found.is_big_endian = found.is_aiff || has_text(file, 0, "RIFX");
  const bool is_wav =
      (has_text(file, 0, "RIFF") || has_text(file, 0, "RIFX") || is_64) && has_text(file, 8, "WAVE");
  if (!found.is_aiff && !is_wav) return {};

  std::uint64_t size_64 = 0;
  bool has_data = false;
  for (std::size_t at = 12; at + 8 <= file.size();) {
    std::uint64_t size = found.number(file, at + 4, 4);
    const std::size_t begin = at + 8, rest = file.size() - begin;
    if (has_text(file, at, found.is_aiff ? "SSND" : "data")) {
      if (has_data) fail_audio("the file has two chunks of samples; a file with one was expected");
      has_data = true;
      if (is_64 && size == 0xffffffff) size = size_64;
      // SoX rounds 0x7ffff000, and in AIFF 0x7f000000, to whole frames.
      const bool is_open = !is_64 && ((size >= 0x7fff0000 && size <= 0x80000000) || size >= 0xffffff00 ||
                                      (found.is_aiff && size >= 0x7eff0000 && size <= 0x7f000010));
      found.add_data(file, begin, size, is_open && size > rest);
      size = found.promised;
      if (size < rest) found.check_following(file, begin + size, size % 2 != 0);
      if (!found.damage.empty()) break;
    } else if (size > rest) {
      if (has_data) break; // what is cut off isn't needed
      fail_audio("the file is damaged: its header has a chunk of " + std::to_string(size) +
                 " bytes at byte " + std::to_string(at) + ", but only " + std::to_string(rest) +
                 " bytes follow");
    } else if (has_text(file, at, found.is_aiff ? "COMM" : "fmt ")) {
      if (found.format.empty()) found.format = file.subspan(begin, size);
    } else if (has_text(file, at, found.is_aiff ? "FVER" : "fact")) {
      found.fact = file.subspan(begin, size);
    } else if (is_64 && has_text(file, at, "ds64") && size >= 16) {
      size_64 = little_endian(file, begin + 8, 8);
    }
    if (size >= rest) break;
    at = begin + static_cast<std::size_t>(size + size % 2);
  }
  if (!has_data || found.format.size() < (found.is_aiff ? 18 : 16))
    fail_audio(has_data ? "the file has no chunk with the format of its samples"
                        : "the file is cut off or damaged: it has no chunk of samples");
  return found;
}

FEEDLINE_INLINE void sound_chunks::add_data(sound_bytes file, std::size_t begin, std::uint64_t size,
                                            bool is_open) {
  const std::size_t rest = file.size() - begin;
  // A program that writes to a pipe, or that was stopped, leaves the largest size or 0. With 0 the file may be
  // complete without a sample: its size then includes a chunk after this one.
  const std::uint64_t end = number(file, 4, 4) + 8;
  const bool is_unset = size <= (is_aiff ? 8 : 0) && (end <= begin + 8 || end > file.size());
  promised = is_open || is_unset ? rest : size;
  // Sizes of more than 4 GiB don't fit into the header, which has their lower 32 bits.
  if (promised < rest) promised += (rest - promised) >> 32 << 32;
  data = file.subspan(begin, static_cast<std::size_t>(std::min<std::uint64_t>(promised, rest)));
  if (promised > rest)
    damage = "its header says " + std::to_string(promised) + " bytes of samples, but only " +
             std::to_string(rest) + " follow";
}

FEEDLINE_INLINE void sound_chunks::check_following(sound_bytes file, std::size_t at, bool is_padded) {
  std::uint64_t frame_bytes = 0; // unknown, or smaller than a byte per sample
  if (format.size() >= 16)
    frame_bytes = number(format, is_aiff ? 0 : 2, 2) * (number(format, is_aiff ? 6 : 14, 2) / 8);
  // Some programs forget the byte after an odd size.
  if (!may_follow(file.subspan(at), frame_bytes) &&
      !(is_padded && may_follow(file.subspan(at + 1), frame_bytes)))
    damage = "more than the " + std::to_string(promised) + " bytes of samples follow that its header says";
}

FEEDLINE_INLINE bool sound_chunks::may_follow(sound_bytes rest, std::uint64_t frame_bytes) noexcept {
  if (rest.size() < frame_bytes || has_text(rest, 0, "TAG") || has_text(rest, 0, "ID3")) return true;
  // A chunk, whose name is readable, or zeros.
  rest = rest.first(std::min<std::size_t>(rest.size(), 4));
  const auto all = [&](unsigned from, unsigned to) {
    return std::all_of(rest.begin(), rest.end(), [&](std::byte b) {
      return std::to_integer<unsigned>(b) >= from && std::to_integer<unsigned>(b) <= to;
    });
  };
  return all(0x20, 0x7e) || all(0, 0);
}

FEEDLINE_INLINE std::optional<std::size_t>
sound_chunks::frames_of_blocks(std::size_t decoded) const noexcept {
  constexpr std::uint64_t ms_adpcm = 0x2, ima_adpcm = 0x11,
                          gsm = 0x31; // the formats that say how long a block is
  if (is_aiff || format.size() < 20 || fact.size() < 4) return {};
  const std::uint64_t tag = number(format, 0, 2), block = number(format, 18, 2), stated = number(fact, 0, 4);
  if (tag != ms_adpcm && tag != ima_adpcm && tag != gsm) return {};
  if (stated == 0 || stated >= decoded || decoded - stated >= block) return {};
  return static_cast<std::size_t>(stated);
}

FEEDLINE_INLINE std::vector<std::byte> sound_chunks::header(sound_bytes file) const {
  std::vector<std::byte> bytes;
  const auto text = [&](std::string_view s) {
    for (const char c : s) bytes.push_back(static_cast<std::byte>(c));
  };
  const auto number = [&](std::uint64_t value) {
    for (int i = 0; i < 4; ++i)
      bytes.push_back(static_cast<std::byte>(value >> 8 * (is_big_endian ? 3 - i : i) & 255));
  };
  const auto chunk = [&](std::string_view name, sound_bytes content) {
    text(name);
    number(content.size());
    bytes.insert(bytes.end(), content.begin(), content.end());
    if (content.size() % 2 != 0) bytes.push_back({});
  };
  if (format.size() > 4096 || fact.size() > 4096)
    fail_audio("the file is damaged: its header describes the format of the samples with " +
               std::to_string(std::max(format.size(), fact.size())) + " bytes");
  if (data.size() > 0xffff0000)
    fail_audio("the file has more than 4 GiB of samples; that is supported only for integers and floats of "
               "at most 32 bits in WAV files");
  text(is_aiff ? "FORM" : is_big_endian ? "RIFX" : "RIFF");
  number(0); // corrected below
  text(is_aiff && has_text(file, 8, "AIFC") ? "AIFC" : is_aiff ? "AIFF" : "WAVE");
  if (is_aiff && !fact.empty()) chunk("FVER", fact);
  chunk(is_aiff ? "COMM" : "fmt ", format);
  if (!is_aiff && !fact.empty()) chunk("fact", fact);
  text(is_aiff ? "SSND" : "data");
  number(data.size());
  std::vector<std::byte> all;
  std::swap(all, bytes);
  number(all.size() - 8 + data.size());
  std::copy(bytes.begin(), bytes.end(), all.begin() + 4);
  return all;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
