// SPDX-License-Identifier: MIT
#pragma once
// Audio in memory that somebody else owns, and parts of it.
#include <cstddef>
#include <span>

namespace feedline::inline v0 {

/// What is known of an audio file before its samples are decoded.
struct audio_header {
  std::size_t frames = 0;   ///< samples per channel
  std::size_t channels = 0; ///< of the result: 1 if it is to be mono
  std::size_t rate = 0;     ///< frames per second
};

/// Frames of a clip: from `first` on, `frames` of them.
struct audio_part {
  std::size_t first = 0;
  std::size_t frames = 0;

  friend bool operator==(const audio_part&, const audio_part&) = default;
};

/// Samples from -1 to 1, planar: [channels, frames]. Owns nothing.
struct audio_clip {
  std::span<float> samples;
  std::size_t channels = 0;
  std::size_t frames = 0; ///< samples per channel
  std::size_t rate = 0;   ///< frames per second

  /// The samples of one channel.
  std::span<float> channel(std::size_t c) const { return samples.subspan(c * frames, frames); }
};

} // namespace feedline::inline v0
