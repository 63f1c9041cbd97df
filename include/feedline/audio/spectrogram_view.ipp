// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/audio/spectrogram_view.hpp>

#include <stdexcept>
#include <string>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE spectrogram_view::spectrogram_view(std::span<float> numbers, std::size_t mel_count,
                                                   std::size_t frame_count, spectrogram_layout layout)
    : data(numbers.data()),
      mels(mel_count),
      frames(frame_count),
      mel_step(layout == spectrogram_layout::mels_frames ? frame_count : 1),
      frame_step(layout == spectrogram_layout::mels_frames ? 1 : mel_count) {
  std::size_t wanted = 0;
  if (__builtin_mul_overflow(mels, frames, &wanted) || numbers.size() != wanted)
    throw std::invalid_argument("feedline: a spectrogram of " + std::to_string(mels) + " mels and " +
                                std::to_string(frames) + " frames doesn't have " +
                                std::to_string(numbers.size()) + " elements");
}

} // namespace feedline::inline FEEDLINE_ABI
