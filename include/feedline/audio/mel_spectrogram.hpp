// SPDX-License-Identifier: MIT
#pragma once
// Computes mel spectrograms and filter banks.
#include <cmath>
#include <cstddef>
#include <span>

#include <feedline/audio/detail/lanes.hpp>
#include <feedline/audio/detail/mel_filters.hpp>
#include <feedline/audio/detail/power_spectrum.hpp>
#include <feedline/audio/detail/windowed_frames.hpp>
#include <feedline/audio/mel_options.hpp>
#include <feedline/audio/spectrogram_view.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Computes mel spectrograms of clips of one channel: windowed frames, their power spectra, triangular
/// filters, and optionally logarithms.
///
/// It is expensive to construct and inexpensive to copy into a stage. It is constant, so construct one and
/// share it among all workers. Each thread keeps memory of 10 floats per sample of the FFT's length; later
/// calls allocate nothing. The same clip yields the same bytes in every thread and run, for one build on one
/// kind of machine. (The compiler's and FFTW's vector instructions round differently on other machines. If
/// the program loads FFTW's wisdom, that can change its plans.)
///
///     const mel_spectrogram features({.sample_rate = 32'000, .fft_length = 1024, .hop_length = 320});
///     features(samples, slot.get<&example::spectrogram>()); // 5 s at 32 kHz: [128, 501]
class mel_spectrogram {
 public:
  /// Throws std::invalid_argument for invalid options.
  explicit mel_spectrogram(const mel_options& options)
      : options_(checked(options)), frames_(options_), spectrum_(options_.fft_length), filters_(options_) {
    frames_.scale(spectrum_.input_scale());
  }

  /// The options, with the actual lengths and frequencies in place of zeros.
  const mel_options& options() const noexcept { return options_; }

  /// The number of mels of a frame.
  std::size_t mels() const noexcept { return options_.mels; }

  /// The number of frames of a clip of n samples: (n + 2 · padding - length) / hop_length + 1, rounded down.
  /// Centered frames have a length of fft_length, and fft_length / 2 of padding on either side; others have a
  /// length of window_length and no padding. 0 for a clip that is too short.
  std::size_t frames(std::size_t samples) const noexcept { return frames_.count(samples); }

  /// Writes the spectrogram of a clip, in options().layout. Throws std::invalid_argument for a clip that is
  /// too short, or unless `out` has mels() · frames(samples.size()) elements.
  void operator()(std::span<const float> samples, std::span<float> out) const;

 private:
  // The number of frames that are filtered together.
  static constexpr std::size_t block = detail::power_spectrum::power_step;

  // Raises squared magnitudes to the power of the options.
  void raise(float* power) const;

  detail::float_lanes value(detail::float_lanes sum) const noexcept {
    if (options_.values == mel_values::linear) return sum;
    const detail::float_lanes floor = detail::all_lanes(static_cast<float>(options_.floor));
    return detail::log_of_lanes(sum < floor ? floor : sum) * log_factor_;
  }

  // Filters a block of frames and stores the first `used` of them.
  void write(const float* power, std::size_t first, std::size_t used, std::size_t count, float* out) const;

  void limit_range(std::span<float> out) const;

  static mel_options checked(mel_options o);

  // Converts a natural logarithm to 10 or 20 times the decimal one.
  static float log_factor(const mel_options& o) noexcept {
    if (o.values != mel_values::decibels) return 1;
    return static_cast<float>((o.power == 1 ? 20 : 10) / std::log(10.0));
  }

  mel_options options_;
  detail::windowed_frames frames_;
  detail::power_spectrum spectrum_;
  detail::mel_filters filters_;
  float log_factor_ = log_factor(options_);
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_AUDIO)
#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include <feedline/audio/detail/float_buffer.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE void mel_spectrogram::operator()(std::span<const float> samples, std::span<float> out) const {
  const std::size_t count = frames(samples.size());
  if (count == 0)
    throw std::invalid_argument("feedline::mel_spectrogram: a clip of " + std::to_string(samples.size()) +
                                " samples is too short; it needs " + std::to_string(frames_.shortest_clip()) +
                                " samples");
  if (out.size() != count * mels())
    throw std::invalid_argument("feedline::mel_spectrogram: a clip of " + std::to_string(samples.size()) +
                                " samples has " + std::to_string(mels()) + " mels of " +
                                std::to_string(count) + " frames, but the output has " +
                                std::to_string(out.size()) + " elements");
  thread_local detail::float_buffer memory;
  const std::size_t input = (2 * options_.fft_length + 15) / 16 * 16;
  const std::size_t rows = detail::lane_count * spectrum_.row();
  float* const frame = memory.reserve(input + rows + block * spectrum_.bins());
  float* const transformed = frame + input;
  float* const power = transformed + rows;
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t used = std::min(block, count - first);
    for (std::size_t half = 0; half < block; half += detail::lane_count) {
      // Lanes after the last frame repeat that frame, or the first half, so that they don't compute with
      // old memory.
      for (std::size_t lane = 0; lane < detail::lane_count && half < used; ++lane) {
        frames_.write(samples, first + std::min(half + lane, used - 1), frame);
        spectrum_.transform(frame, transformed, lane);
      }
      spectrum_.square(transformed, power + half);
    }
    raise(power);
    write(power, first, used, count, out.data());
  }
  if (options_.values == mel_values::decibels && options_.top_decibels > 0) limit_range(out);
}

FEEDLINE_INLINE void mel_spectrogram::raise(float* power) const {
  if (options_.power == 2) return;
  float* const end = power + block * spectrum_.bins();
  if (options_.power == 1)
    for (float* p = power; p != end; ++p) *p = std::sqrt(*p);
  else
    for (float* p = power; p != end; ++p) *p = std::pow(*p, static_cast<float>(options_.power / 2));
}

FEEDLINE_INLINE void mel_spectrogram::write(const float* power, std::size_t first, std::size_t used,
                                            std::size_t count, float* out) const {
  const bool by_mels = options_.layout == spectrogram_layout::mels_frames;
  const std::size_t mel_step = by_mels ? count : 1, frame_step = by_mels ? 1 : mels();
  filters_.apply(power, [&](std::size_t mel, detail::float_lanes low, detail::float_lanes high) {
    float* const to = out + mel * mel_step + first * frame_step;
    low = value(low);
    high = value(high);
    if (by_mels && used == block) {
      detail::store_lanes(to, low);
      detail::store_lanes(to + detail::lane_count, high);
      return;
    }
    std::array<float, block> all;
    detail::store_lanes(all.data(), low);
    detail::store_lanes(all.data() + detail::lane_count, high);
    for (std::size_t i = 0; i < used; ++i) to[i * frame_step] = all[i];
  });
}

FEEDLINE_INLINE void mel_spectrogram::limit_range(std::span<float> out) const {
  const float least = *std::max_element(out.begin(), out.end()) - static_cast<float>(options_.top_decibels);
  for (float& v : out) v = std::max(v, least);
}

FEEDLINE_INLINE mel_options mel_spectrogram::checked(mel_options o) {
  const auto require = [](bool met, const char* sentence) {
    if (!met) throw std::invalid_argument(std::string("feedline::mel_spectrogram: ") + sentence);
  };
  constexpr std::size_t max_size = std::size_t{1} << 24;
  require(o.sample_rate > 0 && o.sample_rate < 1e9, "sample_rate must be above 0 and below 1e9");
  require(o.fft_length >= 2 && o.fft_length <= max_size, "fft_length must be from 2 to 2^24 samples");
  if (o.window_length == 0) o.window_length = o.fft_length;
  require(o.window_length <= o.fft_length, "window_length must not be above fft_length");
  require(o.hop_length > 0 && o.hop_length <= max_size, "hop_length must be from 1 to 2^24 samples");
  require(o.mels > 0 && o.mels <= max_size, "mels must be from 1 to 2^24");
  if (o.max_frequency <= 0) o.max_frequency += o.sample_rate / 2;
  require(o.min_frequency >= 0, "min_frequency must not be negative");
  require(o.max_frequency <= o.sample_rate / 2, "max_frequency must not be above half the sample rate");
  require(o.min_frequency < o.max_frequency, "min_frequency must be below max_frequency");
  require(o.power > 0 && o.power < 100, "power must be above 0 and below 100");
  require(o.floor >= 1e-37 && o.floor < 1e37, "floor must be from 1e-37 to 1e37");
  require(o.top_decibels >= 0, "top_decibels must not be negative");
  require(std::isfinite(o.pre_emphasis), "pre_emphasis must be finite");
  return o;
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
