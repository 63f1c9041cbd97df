// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/audio/detail/sound_file.hpp>

#include <utility>

#include <feedline/audio/audio_error.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE sound_file::sound_file(const char* format, std::vector<std::byte> header, sound_bytes bytes)
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

FEEDLINE_INLINE void sound_file::set_length(std::optional<std::size_t> frames, std::string damage) {
  facts_.frames = frames;
  facts_.damage = std::move(damage);
}

FEEDLINE_INLINE bool sound_file::open() {
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

FEEDLINE_INLINE bool sound_file::seek(std::size_t frame) {
  // Vorbis is sometimes off by a block, https://github.com/libsndfile/libsndfile/issues/885, and the decoder of
  // Opus has a memory.
  if (!info_.seekable || (info_.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_OGG) return false;
  if (sf_seek(file_.get(), static_cast<sf_count_t>(frame), SEEK_SET) == static_cast<sf_count_t>(frame))
    return true;
  if (!open()) fail_audio("libsndfile can't open the file again");
  return false;
}

FEEDLINE_INLINE std::size_t sound_file::read(float* to, std::size_t frames) {
  const sf_count_t got = sf_readf_float(file_.get(), to, static_cast<sf_count_t>(frames));
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

FEEDLINE_INLINE std::string sound_file::error() const {
  return sf_error(file_.get()) == SF_ERR_NO_ERROR ? std::string() : std::string(sf_strerror(file_.get()));
}

} // namespace feedline::inline FEEDLINE_ABI::detail
