// SPDX-License-Identifier: MIT
#pragma once
// A sound file opened by libsndfile.
#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sndfile.h>

#include <feedline/audio/audio_error.hpp>
#include <feedline/audio/detail/byte_stream.hpp>
#include <feedline/audio/detail/sound_source.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// What libsndfile reads of a header that isn't in the file, followed by bytes of the file.
class sound_file final : public sound_source {
 public:
  /// Throws audio_error with the name of the format if libsndfile can't open it.
  sound_file(const char* format, std::vector<std::byte> header, sound_bytes bytes)
      : stream_{std::move(header), bytes} {
    // libsndfile stores the reason in a global variable, which other threads overwrite.
    if (!open())
      fail_audio(std::string("libsndfile can't open the ") + format +
                 " file: its header is damaged, or it has an encoding that libsndfile doesn't read");
    facts_.channels = static_cast<std::size_t>(info_.channels);
    facts_.rate = static_cast<std::size_t>(info_.samplerate);
    facts_.has_floats = (info_.format & SF_FORMAT_TYPEMASK) != SF_FORMAT_FLAC;
    if (info_.frames >= 0 && info_.frames != SF_COUNT_MAX)
      facts_.frames = static_cast<std::size_t>(info_.frames);
  }

  /// Sets the length where the caller knows it better. nullopt: only decoding finds it.
  void set_length(std::optional<std::size_t> frames, std::string damage) {
    facts_.frames = frames;
    facts_.damage = std::move(damage);
  }

  bool seek(std::size_t frame) override {
    // Vorbis is sometimes off by a block, https://github.com/libsndfile/libsndfile/issues/885, and the decoder of
    // Opus has a memory.
    if (!info_.seekable || (info_.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_OGG) return false;
    if (sf_seek(file_.get(), static_cast<sf_count_t>(frame), SEEK_SET) == static_cast<sf_count_t>(frame))
      return true;
    if (!open()) fail_audio("libsndfile can't open the file again");
    return false;
  }

  std::size_t read(float* to, std::size_t frames) override {
    const sf_count_t got = sf_readf_float(file_.get(), to, static_cast<sf_count_t>(frames));
    return got > 0 ? static_cast<std::size_t>(got) : 0;
  }

  std::string error() const override {
    return sf_error(file_.get()) == SF_ERR_NO_ERROR ? std::string() : std::string(sf_strerror(file_.get()));
  }

 private:
  bool open() {
    static SF_VIRTUAL_IO functions{
        [](void* user) { return static_cast<sf_count_t>(static_cast<byte_stream*>(user)->size()); },
        [](sf_count_t offset, int from, void* user) {
          return static_cast<sf_count_t>(static_cast<byte_stream*>(user)->seek(offset, from));
        },
        [](void* to, sf_count_t count, void* user) {
          auto& from = *static_cast<byte_stream*>(user);
          return count <= 0 ? 0 : static_cast<sf_count_t>(from.read(to, static_cast<std::size_t>(count)));
        },
        [](const void*, sf_count_t, void*) { return sf_count_t{0}; }, // no writing
        [](void* user) { return static_cast<sf_count_t>(static_cast<byte_stream*>(user)->position); }};
    file_.reset();
    stream_.position = 0;
    info_ = {};
    file_.reset(sf_open_virtual(&functions, SFM_READ, &info_, &stream_));
    return file_ != nullptr;
  }

  byte_stream stream_;
  SF_INFO info_{};
  std::unique_ptr<SNDFILE, int (*)(SNDFILE*)> file_{nullptr, sf_close};
};

} // namespace feedline::inline FEEDLINE_ABI::detail
