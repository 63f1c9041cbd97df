// SPDX-License-Identifier: MIT
#pragma once
// Views of spectrograms in memory.
#include <cstddef>
#include <cstdint>
#include <span>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// The order of a spectrogram's values in memory.
enum class spectrogram_layout : std::uint8_t {
  mels_frames, ///< [mels, frames], as torchaudio's mel spectrograms and as convolutions take it
  frames_mels, ///< [frames, mels], as Kaldi's filter banks and as transformers take it
};

/// A view of a spectrogram: its size, and the steps between values, in elements. Doesn't own its memory.
struct spectrogram_view {
  float* data = nullptr;      ///< the first mel of the first frame
  std::size_t mels = 0;       ///< their number
  std::size_t frames = 0;     ///< their number
  std::size_t mel_step = 0;   ///< from one mel to the next
  std::size_t frame_step = 0; ///< from one frame to the next

  /// Throws std::invalid_argument unless there are mel_count · frame_count values.
  spectrogram_view(std::span<float> numbers, std::size_t mel_count, std::size_t frame_count,
                   spectrogram_layout layout);

  /// An element, unchecked.
  float& operator()(std::size_t mel, std::size_t frame) const noexcept {
    return data[mel * mel_step + frame * frame_step];
  }
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_AUDIO)
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
#endif
