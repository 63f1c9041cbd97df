// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/audio/mel_spectrogram.hpp>

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
