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

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/detail/sound_chunks.ipp>
#endif
