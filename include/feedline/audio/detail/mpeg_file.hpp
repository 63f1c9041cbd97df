// SPDX-License-Identifier: MIT
#pragma once
// MP3 files.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#ifdef FEEDLINE_AUDIO_MPG123
#include <mpg123.h>
#endif

#include <feedline/audio/detail/byte_stream.hpp>
#include <feedline/audio/detail/sound_source.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The header of an MPEG audio frame (layers 1 to 3). Source: ISO 11172-3 and 13818-3.
struct mpeg_header {
  std::uint32_t bits = 0;
  std::size_t size = 0; ///< of the frame, in bytes

  static std::optional<mpeg_header> at(sound_bytes file, std::size_t at) noexcept;

  /// Whether the version, layer and rate are the same.
  bool is_like(const mpeg_header& other) const noexcept { return ((bits ^ other.bits) & 0xfffe0c00) == 0; }

  /// Where the first frame begins that another one, or the end, follows: at `begin`, or in the `search` bytes
  /// after it. Returns nullopt if there is none.
  static std::optional<std::size_t> find(sound_bytes file, std::size_t begin, std::size_t search) noexcept;
};

#ifdef FEEDLINE_AUDIO_MPG123
/// Decoded by libmpg123. libsndfile guesses the length of a file without a Xing header, and ends there.
class mpeg_file final : public sound_source {
 public:
  mpeg_file(sound_bytes file, std::string damage);

  // libmpg123's decoder has a memory.
  bool seek(std::size_t) override { return false; }

  std::size_t read(float* to, std::size_t frames) override;

  std::string error() const override { return error_; }

 private:
  void set(mpg123_parms parameter, long value) {
    if (mpg123_param(file_.get(), parameter, value, 0) != MPG123_OK) fail();
  }

  void open();
  [[noreturn]] void fail() const;

  // What many encoders write into the first frame; 0 if it isn't there. Source: Xing.
  struct stated_size {
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;
  };

  static stated_size find_stated(sound_bytes file) noexcept;

  // Where the last frame begins if the file is cut off in it.
  static std::optional<std::size_t> find_cut(sound_bytes file) noexcept;

  byte_stream stream_;
  std::unique_ptr<mpg123_handle, void (*)(mpg123_handle*)> file_;
  std::string error_;
};
#endif

/// Opens bytes that begin with an MPEG audio frame. `damage` is that of the file around them, or an empty text.
/// Throws audio_error.
std::unique_ptr<sound_source> open_mpeg(sound_bytes file, std::string damage = {});

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/detail/mpeg_file.ipp>
#endif
