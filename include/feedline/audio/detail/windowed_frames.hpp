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

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/detail/windowed_frames.ipp>
#endif
