// SPDX-License-Identifier: MIT
#pragma once
// The frames of a clip as input of the Fourier transform.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include <feedline/audio/mel_options.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

double window_at(spectrogram_window window, double x);

class windowed_frames {
 public:
  /// The options must be valid.
  explicit windowed_frames(const mel_options& o);

  /// Multiplies the frames of write() by a factor.
  void scale(double factor) {
    for (float& w : window_) w *= static_cast<float>(factor);
  }

  /// The length of the shortest clip that has a frame. Reflection doesn't repeat the samples at the clip's
  /// ends.
  std::size_t shortest_clip() const noexcept {
    const std::size_t for_padding = padding_ > 0 && reflects_ ? padding_ + 1 : 1;
    return std::max(for_padding, length_ - std::min(length_, 2 * padding_));
  }

  std::size_t count(std::size_t samples) const noexcept {
    return samples < shortest_clip() ? 0 : (samples + 2 * padding_ - length_) / hop_ + 1;
  }

  /// Writes a frame to fft_length numbers. Doesn't read their old values.
  void write(std::span<const float> samples, std::size_t frame, float* to) const noexcept;

 private:
  float padded(std::span<const float> samples, std::size_t i) const noexcept {
    const std::size_t last = samples.size() - 1;
    if (i >= padding_ && i - padding_ <= last) return samples[i - padding_];
    if (!reflects_) return 0;
    return i < padding_ ? samples[padding_ - i] : samples[last - (i - padding_ - last)];
  }

  void multiply(const float* x, float* to) const noexcept;

  // Runs backwards, because `x` may be `to`.
  void emphasize(const float* x, float* to) const noexcept;

  float mean_of(const float* x) const noexcept;

  std::size_t fft_length_;
  std::size_t hop_;
  std::size_t padding_; // samples on each side
  std::size_t length_;  // of a frame within the padded clip
  std::size_t offset_;  // of the window in the frame
  bool reflects_;
  bool remove_mean_;
  float pre_emphasis_;
  std::vector<float> window_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_AUDIO)
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
#endif
