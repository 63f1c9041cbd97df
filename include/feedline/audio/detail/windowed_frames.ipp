// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/audio/detail/windowed_frames.hpp>

#include <numbers>

#include <feedline/audio/detail/lanes.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE double window_at(spectrogram_window window, double x) {
  const double angle = 2 * std::numbers::pi * x;
  switch (window) {
  case spectrogram_window::hann:
    return 0.5 - 0.5 * std::cos(angle);
  case spectrogram_window::hamming:
    return 0.54 - 0.46 * std::cos(angle);
  case spectrogram_window::blackman:
    return 0.42 - 0.5 * std::cos(angle) + 0.08 * std::cos(2 * angle);
  case spectrogram_window::povey:
    return std::pow(0.5 - 0.5 * std::cos(angle), 0.85);
  case spectrogram_window::rectangular:
    break;
  }
  return 1;
}

FEEDLINE_INLINE windowed_frames::windowed_frames(const mel_options& o)
    : fft_length_(o.fft_length),
      hop_(o.hop_length),
      padding_(o.centered ? o.fft_length / 2 : 0),
      length_(o.centered ? o.fft_length : o.window_length),
      offset_(o.centered ? (o.fft_length - o.window_length) / 2 : 0),
      reflects_(o.padding == spectrogram_padding::reflect),
      remove_mean_(o.remove_mean),
      pre_emphasis_(static_cast<float>(o.pre_emphasis)) {
  const std::size_t steps = o.periodic_window ? o.window_length : o.window_length - 1;
  for (std::size_t i = 0; i < o.window_length; ++i)
    window_.push_back(static_cast<float>(
        o.window_length == 1 ? 1 : window_at(o.window, static_cast<double>(i) / static_cast<double>(steps))));
}

FEEDLINE_INLINE void windowed_frames::write(std::span<const float> samples, std::size_t frame,
                                            float* to) const noexcept {
  const std::size_t size = window_.size();
  // Positions in the padded clip.
  const std::size_t begin = frame * hop_ + offset_, end = begin + size;
  const float* x = to;
  if (begin >= padding_ && end <= padding_ + samples.size()) x = &samples[begin - padding_];
  else
    for (std::size_t i = 0; i < size; ++i) to[i] = padded(samples, begin + i);
  if (remove_mean_ || pre_emphasis_ != 0) emphasize(x, to);
  else multiply(x, to);
  std::fill(to + size, to + fft_length_, 0.0f);
}

FEEDLINE_INLINE void windowed_frames::multiply(const float* x, float* to) const noexcept {
  std::size_t i = 0;
  for (; i + lane_count <= window_.size(); i += lane_count)
    store_lanes(to + i, load_lanes(x + i) * load_lanes(&window_[i]));
  for (; i < window_.size(); ++i) to[i] = x[i] * window_[i];
}

FEEDLINE_INLINE void windowed_frames::emphasize(const float* x, float* to) const noexcept {
  const float mean = remove_mean_ ? mean_of(x) : 0;
  const float first = x[0] - mean;
  std::size_t i = window_.size();
  for (; i > lane_count; i -= lane_count) {
    const std::size_t at = i - lane_count;
    const float_lanes here = load_lanes(x + at) - mean, before = load_lanes(x + at - 1) - mean;
    store_lanes(to + at, (here - pre_emphasis_ * before) * load_lanes(&window_[at]));
  }
  for (; i-- > 1;) to[i] = ((x[i] - mean) - pre_emphasis_ * (x[i - 1] - mean)) * window_[i];
  to[0] = (first - pre_emphasis_ * first) * window_[0];
}

FEEDLINE_INLINE float windowed_frames::mean_of(const float* x) const noexcept {
  float_lanes sums{}, others{};
  std::size_t i = 0;
  for (; i + 2 * lane_count <= window_.size(); i += 2 * lane_count) {
    sums += load_lanes(x + i);
    others += load_lanes(x + i + lane_count);
  }
  float sum = sum_of_lanes(sums + others);
  for (; i < window_.size(); ++i) sum += x[i];
  return sum / static_cast<float>(window_.size());
}

} // namespace feedline::inline FEEDLINE_ABI::detail
