// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/audio/audio_resampler.hpp>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include <feedline/detail/given_size.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE std::span<const float> audio_resampler::resample(std::span<const float> samples,
                                                                 std::size_t from, std::size_t to) {
  check(from, to);
  if (from == to) return samples;
  const std::size_t frames = resampled_frames(samples.size(), from, to);
  const std::span<float> out{samples_.reserve(frames), frames};
  if (frames > 0) converter(from, to).run(samples, out);
  return out;
}

FEEDLINE_INLINE audio_clip audio_resampler::resample(const audio_clip& clip, std::size_t to) {
  check(clip.rate, to);
  if (clip.rate == to) return clip;
  const std::size_t frames = resampled_frames(clip.frames, clip.rate, to);
  if (frames > std::numeric_limits<std::size_t>::max() / std::max<std::size_t>(clip.channels, 1))
    throw std::invalid_argument(
        "feedline::audio_resampler: the resampled clip is too long for this machine's memory");
  const audio_clip out{
      {samples_.reserve(frames * clip.channels), frames * clip.channels}, clip.channels, frames, to};
  for (std::size_t c = 0; frames > 0 && c < clip.channels; ++c)
    converter(clip.rate, to).run(clip.channel(c), out.channel(c));
  return out;
}

FEEDLINE_INLINE void audio_resampler::check(std::size_t from, std::size_t to) {
  constexpr std::size_t max_rate = std::size_t{1} << 31;
  if (from == 0 || to == 0 || from > max_rate || to > max_rate || from / to > max_ratio ||
      to / from > max_ratio)
    throw std::invalid_argument("feedline::audio_resampler: can't resample from " + detail::size_text(from) +
                                " to " + detail::size_text(to) +
                                " frames per second; rates must be from 1 to 2^31, and one at most " +
                                std::to_string(max_ratio) + " times the other");
}

FEEDLINE_INLINE detail::rate_converter& audio_resampler::converter(std::size_t from, std::size_t to) {
  const auto found = std::find_if(converters_.begin(), converters_.end(),
                                  [&](const auto& c) { return c.from() == from && c.to() == to; });
  if (found != converters_.end()) {
    std::rotate(converters_.begin(), found, found + 1);
  } else {
    detail::rate_converter made(from, to, recipe());
    if (converters_.size() == max_converters) converters_.pop_back();
    converters_.insert(converters_.begin(), std::move(made));
  }
  return converters_.front();
}

} // namespace feedline::inline FEEDLINE_ABI
