// SPDX-License-Identifier: MIT
#pragma once
// Crops or pads clips to a fixed length.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include <feedline/audio/audio_clip.hpp>
#include <feedline/core/random.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// The range of a random crop of `length` frames of a clip, with each start equally likely; all of a shorter
/// clip. For training.
constexpr audio_range random_crop(std::size_t frames, std::size_t length, random_generator& random) noexcept {
  const std::size_t taken = std::min(frames, length);
  // Drawn for a short clip, too, so that later draws don't depend on the clip's length.
  return {static_cast<std::size_t>(random.below(frames - taken + 1)), taken};
}

/// The range of a center crop of `length` frames of a clip; if it can't be exactly centered, half a frame
/// earlier. All of a shorter clip. For evaluation.
constexpr audio_range center_crop(std::size_t frames, std::size_t length) noexcept {
  const std::size_t taken = std::min(frames, length);
  return {(frames - taken) / 2, taken};
}

namespace detail {

/// Copies samples to out[at], with silence around them. Copies before it writes silence, because they may
/// overlap.
inline void place(std::span<const float> samples, std::span<float> out, std::size_t at) {
  if (!samples.empty()) std::memmove(out.data() + at, samples.data(), samples.size_bytes());
  std::fill_n(out.begin(), at, 0.0f);
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(at + samples.size()), out.end(), 0.0f);
}

} // namespace detail

/// Fills `out` with a random crop of a clip of one channel, or with a whole shorter clip and silence after
/// it. Equal generators produce equal results. `out` may overlap the clip.
///
/// Example: `random_crop_or_pad(clip.samples, slot.get<&example::samples>(), context.random);`
inline void random_crop_or_pad(std::span<const float> samples, std::span<float> out,
                               random_generator& random) {
  const audio_range part = random_crop(samples.size(), out.size(), random);
  detail::place(samples.subspan(part.first, part.frames), out, 0);
}

/// Fills `out` with the center crop of a clip of one channel, or with a whole shorter clip and silence on
/// both sides; an odd sample of silence is added after the clip. `out` may overlap the clip.
inline void center_crop_or_pad(std::span<const float> samples, std::span<float> out) {
  const audio_range part = center_crop(samples.size(), out.size());
  detail::place(samples.subspan(part.first, part.frames), out, (out.size() - part.frames) / 2);
}

} // namespace feedline::inline FEEDLINE_ABI
