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

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/spectrogram_view.ipp>
#endif
