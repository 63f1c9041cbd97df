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

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/audio_resampler.ipp>
#endif
