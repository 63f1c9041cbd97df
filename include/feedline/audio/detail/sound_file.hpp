// SPDX-License-Identifier: MIT
#pragma once
// A sound file that libsndfile has open.
#include <cstddef>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>

#include <feedline/audio/detail/byte_stream.hpp>

#include <sndfile.h>

namespace feedline::inline v0::detail {

/// Opens bytes in memory, which must outlive it; error() says why it couldn't.
class sound_file {
 public:
  explicit sound_file(std::span<const std::byte> file) : stream_{file} {
    {
      const std::shared_lock lock(opening());
      file_ = open();
    }
    if (file_) return;
    // libsndfile keeps the reason in a variable of the process, which whoever opens a file writes to.
    const std::unique_lock lock(opening());
    file_ = open();
    if (!file_) error_ = sf_error_number(sf_error(nullptr));
  }

  sound_file(const sound_file&) = delete;
  sound_file& operator=(const sound_file&) = delete;

  ~sound_file() {
    if (file_) sf_close(file_);
  }

  bool is_open() const noexcept { return file_ != nullptr; }

  /// libsndfile's words for what went wrong, or nothing.
  std::string error() const {
    if (!file_) return error_;
    return sf_error(file_) == SF_ERR_NO_ERROR ? std::string() : std::string(sf_strerror(file_));
  }

  std::size_t channels() const noexcept { return static_cast<std::size_t>(info_.channels); }

  std::size_t rate() const noexcept { return static_cast<std::size_t>(info_.samplerate); }

  /// Nothing, where the header doesn't tell.
  std::optional<std::size_t> frames() const noexcept {
    if (info_.frames < 0 || info_.frames == SF_COUNT_MAX) return {};
    return static_cast<std::size_t>(info_.frames);
  }

  /// Whether the length may be off a little, as the file doesn't say it.
  bool length_is_estimate() const noexcept { return (info_.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_MPEG; }

  /// Whether what is read after seek() is to the last bit what it would be without. Vorbis is off by a block now and
  /// then, https://github.com/libsndfile/libsndfile/issues/885, and decoders of Opus and MP3 have a memory.
  bool seeks_exactly() const noexcept {
    const int container = info_.format & SF_FORMAT_TYPEMASK;
    return info_.seekable != 0 && container != SF_FORMAT_OGG && container != SF_FORMAT_MPEG;
  }

  /// Goes to that frame; false where it can't.
  bool seek(std::size_t frame) noexcept {
    return sf_seek(file_, static_cast<sf_count_t>(frame), SEEK_SET) == static_cast<sf_count_t>(frame);
  }

  /// Reads frames whose channels are interleaved. Fewer than asked for: the file has no more.
  std::size_t read(float* to, std::size_t frames) noexcept {
    const sf_count_t got = sf_readf_float(file_, to, static_cast<sf_count_t>(frames));
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  }

 private:
  static std::shared_mutex& opening() {
    static std::shared_mutex mutex;
    return mutex;
  }

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

} // namespace feedline::inline v0::detail
