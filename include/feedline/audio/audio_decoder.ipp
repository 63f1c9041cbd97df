// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/audio/audio_decoder.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE void audio_decoder::fail(const std::string& what) {
  throw audio_error("feedline::audio_decoder: " + what);
}

FEEDLINE_INLINE std::string audio_decoder::because(const std::string& error) {
  return error.empty() ? error : " (" + error + ")";
}

FEEDLINE_INLINE audio_clip audio_decoder::clip(const audio_header& header, audio_range part) {
  const std::size_t channels = header.channels;
  if (channels > 1) {
    const float* const from = samples_.data() + part.first * channels;
    float* const planar = interleaved_.reserve(part.frames * channels);
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t i = 0; i < part.frames; ++i) planar[c * part.frames + i] = from[i * channels + c];
    std::swap(interleaved_, samples_);
    part.first = 0;
  }
  return {
      {samples_.data() + part.first * channels, part.frames * channels}, channels, part.frames, header.rate};
}

} // namespace feedline::inline FEEDLINE_ABI
