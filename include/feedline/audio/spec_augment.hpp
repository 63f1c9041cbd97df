// SPDX-License-Identifier: MIT
#pragma once
// Masks bands of a spectrogram.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include <feedline/audio/spectrogram_view.hpp>
#include <feedline/core/random.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Sets `count` mels from `first` on to `value`, in all frames.
inline void mask_mels(const spectrogram_view& spectrogram, std::size_t first, std::size_t count,
                      float value = 0) {
  for (std::size_t m = first; m < spectrogram.mels && m - first < count; ++m)
    for (std::size_t f = 0; f < spectrogram.frames; ++f) spectrogram(m, f) = value;
}

/// Sets `count` frames from `first` on to `value`, in all mels.
inline void mask_frames(const spectrogram_view& spectrogram, std::size_t first, std::size_t count,
                        float value = 0) {
  for (std::size_t f = first; f < spectrogram.frames && f - first < count; ++f)
    for (std::size_t m = 0; m < spectrogram.mels; ++m) spectrogram(m, f) = value;
}

/// SpecAugment without time warping: masks bands of mels and bands of frames. The width of a mask is from 0
/// to its maximum; all widths and all positions are equally likely.
///
/// (D. S. Park et al., "SpecAugment: A Simple Data Augmentation Method for Automatic Speech Recognition", 2019; the
/// defaults are its policy LD. There `value` is the mean, which is 0 for normalized spectrograms.)
///
///     spec_augment{.max_mels = 27, .max_frames = 100}({features, 128, 498, layout}, context.random);
struct spec_augment {
  std::size_t mel_masks = 2;    ///< how many
  std::size_t max_mels = 27;    ///< largest width of a mask
  std::size_t frame_masks = 2;  ///< how many
  std::size_t max_frames = 100; ///< largest width of a mask
  double max_frame_share = 1;   ///< largest width of a mask, as a fraction of all frames
  float value = 0;              ///< of masked elements

  /// Masks in place. Throws std::invalid_argument for a max_frame_share outside [0, 1].
  void operator()(const spectrogram_view& spectrogram, random_generator& random) const;

 private:
  struct band {
    std::size_t first, count;
  };

  static band draw(std::size_t all, std::size_t most, random_generator& random) {
    const std::size_t count = random.below(std::min(all, most) + 1);
    return {static_cast<std::size_t>(random.below(all - count + 1)), count};
  }
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_AUDIO)
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
#endif
