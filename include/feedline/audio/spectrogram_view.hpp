// SPDX-License-Identifier: MIT
#pragma once
// Spectrograms in memory that somebody else owns.
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

namespace feedline::inline v0 {

/// How the numbers of a spectrogram lie in memory, row by row.
enum class spectrogram_layout : std::uint8_t {
  mels_frames, ///< [mels, frames], as torchaudio gives mel spectrograms and convolutions want them
  frames_mels, ///< [frames, mels], as Kaldi gives filter banks and transformers want them
};

/// Numbers of a spectrogram and the steps from one to the next, in elements. Owns nothing.
struct spectrogram_view {
  float* data = nullptr;
  std::size_t mels = 0;
  std::size_t frames = 0;
  std::size_t mel_step = 0;
  std::size_t frame_step = 0;

  /// Throws std::invalid_argument unless there are mel_count · frame_count numbers.
  spectrogram_view(std::span<float> numbers, std::size_t mel_count, std::size_t frame_count,
                   spectrogram_layout layout)
      : data(numbers.data()),
        mels(mel_count),
        frames(frame_count),
        mel_step(layout == spectrogram_layout::mels_frames ? frame_count : 1),
        frame_step(layout == spectrogram_layout::mels_frames ? 1 : mel_count) {
    std::size_t wanted = 0;
    if (__builtin_mul_overflow(mels, frames, &wanted) || numbers.size() != wanted)
      throw std::invalid_argument("feedline: " + std::to_string(numbers.size()) +
                                  " numbers are no spectrogram of " + std::to_string(mels) + " mels and " +
                                  std::to_string(frames) + " frames");
  }

  float& operator()(std::size_t mel, std::size_t frame) const noexcept {
    return data[mel * mel_step + frame * frame_step];
  }
};

} // namespace feedline::inline v0
