// SPDX-License-Identifier: MIT
#pragma once
// Where the frames of a FLAC file begin, and where they end.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <feedline/audio/detail/sound_bytes.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A FLAC file. Its length comes from its last frame, since the header's may be missing or wrong. Source of the
/// layout: RFC 9639.
struct flac_stream {
  std::vector<std::byte> header; ///< the smallest one, for libsndfile: nothing but the first block
  sound_bytes frames;
  std::optional<std::size_t> length; ///< nullopt if only decoding finds it
  std::string damage;                ///< why the file can't be whole, or an empty text

  /// For a file that begins with "fLaC". Throws audio_error for a header that can't be right.
  static flac_stream find(sound_bytes file);

 private:
  struct frame {
    std::uint64_t first = 0; // the number of its first sample
    std::uint64_t samples = 0;
    bool is_numbered = true; // whether that number is known
    bool has_bits = false;   // it names the size of its samples
  };

  // The frame whose header begins there, or nullopt.
  std::optional<frame> frame_at(std::size_t at) const noexcept;
  // The frame that ends where the file ends.
  std::optional<frame> last_frame() const noexcept;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/detail/flac_stream.ipp>
#endif
