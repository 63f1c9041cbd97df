// SPDX-License-Identifier: MIT
#pragma once
// The exception for audio files.
#include <stdexcept>
#include <string>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// An audio file that can't be decoded.
class audio_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {

/// Throws an audio_error of audio_decoder.
[[noreturn]] void fail_audio(const std::string& what);

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_AUDIO)
namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void fail_audio(const std::string& what) {
  throw audio_error("feedline::audio_decoder: " + what);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
