// SPDX-License-Identifier: MIT
#pragma once
// Decoded audio in memory, and ranges of it.
#include <cstddef>
#include <span>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// What an audio file's header says, with the options applied.
struct audio_header {
  std::size_t frames = 0;   ///< samples per channel
  std::size_t channels = 0; ///< of the result: 1 if audio_options::mono is set
  std::size_t rate = 0;     ///< frames per second
};

/// A range of a clip: `frames` frames from `first` on.
struct audio_range {
  std::size_t first = 0;  ///< the index of its first frame
  std::size_t frames = 0; ///< its length

  friend bool operator==(const audio_range&, const audio_range&) = default;
};

/// A view of a waveform: samples from -1 to 1, planar, [channels, frames]. Doesn't own its memory.
struct audio_clip {
  std::span<float> samples; ///< all of channel 0, then all of channel 1, …
  std::size_t channels = 0; ///< their number
  std::size_t frames = 0;   ///< samples per channel
  std::size_t rate = 0;     ///< frames per second

  /// The samples of one channel.
  std::span<float> channel(std::size_t c) const { return samples.subspan(c * frames, frames); }
};

} // namespace feedline::inline FEEDLINE_ABI
