// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/audio/detail/power_spectrum.hpp>

#include <numbers>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE power_spectrum::power_spectrum(std::size_t length)
    : length_(length),
      transformed_(length % 2 == 0 ? length / 2 : length),
      row_((2 * (transformed_ + 1) + 15) / 16 * 16),
      plan_(fft_plan::of_length(transformed_)) {
  if (length % 2 != 0) return;
  for (std::size_t k = 0; k <= transformed_ / 2 + 1; ++k) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(length);
    turns_.push_back(static_cast<float>(std::cos(angle)));
    turns_.push_back(static_cast<float>(std::sin(angle)));
  }
}

FEEDLINE_INLINE void power_spectrum::transform(float* from, float* rows, std::size_t lane) const noexcept {
  float* const to = rows + lane * row_;
  if (length_ % 2 != 0)
    for (std::size_t i = length_; i-- > 0;) {
      from[2 * i] = from[i];
      from[2 * i + 1] = 0;
    }
  plan_->run(from, to);
  to[2 * transformed_] = to[0]; // the transform is periodic
  to[2 * transformed_ + 1] = to[1];
}

FEEDLINE_INLINE void power_spectrum::square(const float* rows, float* power) const noexcept {
  if (length_ % 2 != 0) {
    for (std::size_t k = 0; k < bins(); ++k)
      for (std::size_t lane = 0; lane < lane_count; ++lane) {
        const float* z = rows + lane * row_ + 2 * k;
        power[power_step * k + lane] = z[0] * z[0] + z[1] * z[1];
      }
    return;
  }
  const std::size_t half = transformed_;
  for (std::size_t k = 0; k <= half / 2; k += 2) {
    const quad low = load(rows + 2 * k), high = load(rows + 2 * (half - k - 1));
    square_pair(low.re0, low.im0, high.re1, high.im1, k, power);
    square_pair(low.re1, low.im1, high.re0, high.im0, k + 1, power);
  }
}

FEEDLINE_INLINE void power_spectrum::square_pair(float_lanes a_re, float_lanes a_im, float_lanes b_re,
                                                 float_lanes b_im, std::size_t k,
                                                 float* power) const noexcept {
  const float_lanes cosine = all_lanes(turns_[2 * k]), sine = all_lanes(turns_[2 * k + 1]);
  const float_lanes even_re = a_re + b_re, even_im = a_im - b_im, odd_re = a_re - b_re, odd_im = a_im + b_im;
  const float_lanes turned_re = cosine * odd_im - sine * odd_re, turned_im = sine * odd_im + cosine * odd_re;
  const float_lanes low_re = even_re + turned_re, low_im = even_im - turned_im;
  const float_lanes high_re = even_re - turned_re, high_im = even_im + turned_im;
  store_lanes(power + power_step * k, low_re * low_re + low_im * low_im);
  store_lanes(power + power_step * (transformed_ - k), high_re * high_re + high_im * high_im);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
