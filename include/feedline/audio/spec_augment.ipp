// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/audio/spec_augment.hpp>

#include <stdexcept>
#include <string>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE void spec_augment::operator()(const spectrogram_view& spectrogram,
                                              random_generator& random) const {
  if (!(max_frame_share >= 0 && max_frame_share <= 1))
    throw std::invalid_argument("feedline::spec_augment: max_frame_share is " +
                                std::to_string(max_frame_share) + ", but must be from 0 to 1");
  for (std::size_t i = 0; i < mel_masks; ++i) {
    const band b = draw(spectrogram.mels, max_mels, random);
    mask_mels(spectrogram, b.first, b.count, value);
  }
  const auto share = static_cast<std::size_t>(max_frame_share * static_cast<double>(spectrogram.frames));
  for (std::size_t i = 0; i < frame_masks; ++i) {
    const band b = draw(spectrogram.frames, std::min(max_frames, share), random);
    mask_frames(spectrogram, b.first, b.count, value);
  }
}

} // namespace feedline::inline FEEDLINE_ABI
