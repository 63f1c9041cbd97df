// SPDX-License-Identifier: MIT
#pragma once
// A sound file opened by libsndfile.
#include <memory>
#include <vector>

#include <sndfile.h>

#include <feedline/audio/detail/byte_stream.hpp>
#include <feedline/audio/detail/sound_source.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// What libsndfile reads of a header that isn't in the file, followed by bytes of the file.
class sound_file final : public sound_source {
 public:
  /// Throws audio_error with the name of the format if libsndfile can't open it.
  sound_file(const char* format, std::vector<std::byte> header, sound_bytes bytes);

  /// Sets the length where the caller knows it better. nullopt: only decoding finds it.
  void set_length(std::optional<std::size_t> frames, std::string damage);

  bool seek(std::size_t frame) override;
  std::size_t read(float* to, std::size_t frames) override;
  std::string error() const override;

 private:
  bool open();

  byte_stream stream_;
  SF_INFO info_{};
  std::unique_ptr<SNDFILE, int (*)(SNDFILE*)> file_{nullptr, sf_close};
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/detail/sound_file.ipp>
#endif
