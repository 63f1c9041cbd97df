// SPDX-License-Identifier: MIT
#pragma once
// Clips of one length: a part of those that are longer, silence around those that are shorter.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include <feedline/audio/audio_clip.hpp>
#include <feedline/core/random.hpp>

namespace feedline::inline v0 {

/// `length` frames of a clip of `frames`, from a random place on, each equally likely; all of a shorter one. For
/// training.
constexpr audio_part random_crop(std::size_t frames, std::size_t length, random_generator& random) noexcept {
  const std::size_t taken = std::min(frames, length);
  // Drawn for a short clip, too: what is drawn next doesn't depend on the clip.
  return {static_cast<std::size_t>(random.below(frames - taken + 1)), taken};
}

/// The `length` frames in the middle of a clip of `frames`, the earlier ones if that isn't a whole frame; all of a
/// shorter one. For evaluation.
constexpr audio_part center_crop(std::size_t frames, std::size_t length) noexcept {
  const std::size_t taken = std::min(frames, length);
  return {(frames - taken) / 2, taken};
}

namespace detail {

/// Copies samples to out[at], with silence around them; first what is copied, as the silence may lie over it.
inline void place(std::span<const float> samples, std::span<float> out, std::size_t at) {
  if (!samples.empty()) std::memmove(out.data() + at, samples.data(), samples.size_bytes());
  std::fill_n(out.begin(), at, 0.0f);
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(at + samples.size()), out.end(), 0.0f);
}

} // namespace detail

/// Fills `out` with a random part of a clip of one channel, or with all of a shorter clip and silence after it. Equal for
/// equal generators. `out` may overlap the clip.
///
/// Example: `random_crop_or_pad(clip.samples, slot.get<&example::samples>(), context.random);`
inline void random_crop_or_pad(std::span<const float> samples, std::span<float> out,
                               random_generator& random) {
  const audio_part part = random_crop(samples.size(), out.size(), random);
  detail::place(samples.subspan(part.first, part.frames), out, 0);
}

/// Fills `out` with the middle of a clip of one channel, or with all of a shorter clip and silence on both sides; where
/// that isn't equal, one sample more after it. `out` may overlap the clip.
inline void center_crop_or_pad(std::span<const float> samples, std::span<float> out) {
  const audio_part part = center_crop(samples.size(), out.size());
  detail::place(samples.subspan(part.first, part.frames), out, (out.size() - part.frames) / 2);
}

} // namespace feedline::inline v0
