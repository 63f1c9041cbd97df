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

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/audio_error.ipp>
#endif
