// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/audio/audio_error.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void fail_audio(const std::string& what) {
  throw audio_error("feedline::audio_decoder: " + what);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
