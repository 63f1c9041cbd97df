// SPDX-License-Identifier: MIT
#pragma once
// Resamples audio to another sample rate.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <feedline/audio/audio_clip.hpp>
#include <feedline/audio/detail/float_buffer.hpp>
#include <feedline/audio/detail/rate_converter.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// soxr's standard qualities. From `medium` on the passband is flat to 0.01 dB up to 0.91 of half the lower
/// rate, and frequencies above half the new rate are attenuated by 6 dB for each of the bits listed here.
enum class resampling_quality : std::uint8_t {
  low,       ///< 16 bits, with a wider transition band
  medium,    ///< 16 bits
  high,      ///< 20 bits
  very_high, ///< 28 bits, calculated in double precision
};

/// Resamples clips one after another with soxr. It reuses its memory and the resamplers of the last pairs of
/// rates: keep one per thread. The result for a clip doesn't depend on earlier clips.
///
/// Example: `audio_resampler resampler; audio_clip clip = resampler.resample(decoder.decode(file), 32'000);`
class audio_resampler {
 public:
  /// With this quality for all clips.
  explicit audio_resampler(resampling_quality quality = resampling_quality::high) : quality_(quality) {}

  /// The largest ratio of two rates. Without a limit a hostile header could turn a second into an hour.
  static constexpr std::size_t max_ratio = 256;

  /// The number of frames that `frames` become: frames · to / from, rounded up.
  static constexpr std::size_t resampled_frames(std::size_t frames, std::size_t from,
                                                std::size_t to) noexcept {
    return frames / from * to + (frames % from * to + from - 1) / from;
  }

  /// Resamples one channel to the rate `to`. The first sample of the result is at the time of the first input
  /// sample; the clip is surrounded by silence. If the rates are equal, the result is `samples`; otherwise it
  /// is in the resampler's memory and valid until its next call. `samples` must not be in that memory.
  ///
  /// Throws std::invalid_argument for a rate of 0 or above 2^31, or if one is more than max_ratio times the other.
  std::span<const float> resample(std::span<const float> samples, std::size_t from, std::size_t to);

  /// Resamples each channel of a clip in the same way.
  audio_clip resample(const audio_clip& clip, std::size_t to);

 private:
  static void check(std::size_t from, std::size_t to);

  detail::rate_converter& converter(std::size_t from, std::size_t to);

  unsigned long recipe() const noexcept {
    switch (quality_) {
    case resampling_quality::low:
      return SOXR_LQ;
    case resampling_quality::medium:
      return SOXR_16_BITQ;
    case resampling_quality::high:
      return SOXR_HQ;
    case resampling_quality::very_high:
      break;
    }
    return SOXR_VHQ;
  }

  static constexpr std::size_t max_converters = 8;

  resampling_quality quality_;
  std::vector<detail::rate_converter> converters_; // most recently used first
  detail::float_buffer samples_;
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_AUDIO)
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
#endif
