// SPDX-License-Identifier: MIT
#pragma once
// A sound file opened by libsndfile.
#include <cstddef>
#include <cstdio>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>

#include <sndfile.h>

#include <feedline/audio/detail/byte_stream.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Opens a sound file in memory, which must outlive the object. If that fails, error() returns the reason.
class sound_file {
 public:
  explicit sound_file(std::span<const std::byte> file);

  sound_file(const sound_file&) = delete;
  sound_file& operator=(const sound_file&) = delete;

  ~sound_file() {
    if (file_) sf_close(file_);
  }

  bool is_open() const noexcept { return file_ != nullptr; }

  /// libsndfile's error message, or an empty text.
  std::string error() const;

  std::size_t channels() const noexcept { return static_cast<std::size_t>(info_.channels); }

  std::size_t rate() const noexcept { return static_cast<std::size_t>(info_.samplerate); }

  /// The length; nullopt if the header doesn't contain it.
  std::optional<std::size_t> frames() const noexcept;

  /// Whether the length may be slightly wrong, because the file doesn't contain it.
  bool length_is_estimate() const noexcept { return (info_.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_MPEG; }

  /// Whether samples read after seek() equal to the last bit those of reading from the beginning. Vorbis is
  /// sometimes off by a block, https://github.com/libsndfile/libsndfile/issues/885, and decoders of Opus and
  /// MP3 have a memory.
  bool seeks_exactly() const noexcept {
    const int container = info_.format & SF_FORMAT_TYPEMASK;
    return info_.seekable != 0 && container != SF_FORMAT_OGG && container != SF_FORMAT_MPEG;
  }

  /// Seeks to this frame. Returns false if that fails.
  bool seek(std::size_t frame) noexcept {
    return sf_seek(file_, static_cast<sf_count_t>(frame), SEEK_SET) == static_cast<sf_count_t>(frame);
  }

  /// Reads frames with interleaved channels. Returns fewer than requested at the end of the file.
  std::size_t read(float* to, std::size_t frames) noexcept {
    const sf_count_t got = sf_readf_float(file_, to, static_cast<sf_count_t>(frames));
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  }

 private:
  static std::shared_mutex& opening();

  SNDFILE* open() noexcept {
    stream_.position = 0;
    info_ = {};
    return sf_open_virtual(&byte_stream::functions(), SFM_READ, &info_, &stream_);
  }

  byte_stream stream_;
  SF_INFO info_{};
  SNDFILE* file_ = nullptr;
  std::string error_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/detail/sound_file.ipp>
#endif
