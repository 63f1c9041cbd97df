// SPDX-License-Identifier: MIT
#pragma once
// Computes the power spectra of four frames at once.
#include <cmath>
#include <cstddef>
#include <memory>
#include <vector>

#include <feedline/audio/detail/fft_plan.hpp>
#include <feedline/audio/detail/lanes.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The squared magnitudes of the Fourier transform of n real numbers. For an even n, neighbours x[2j] +
/// i·x[2j+1] are transformed as n/2 complex numbers Z, and with W = exp(-2πi/n)
///
///     X[k] = (Z[k] + conj Z[n/2-k]) / 2  -  i · W^k · (Z[k] - conj Z[n/2-k]) / 2
///
/// (H. V. Sorensen et al., "Real-Valued Fast Fourier Transform Algorithms", 1987.) The lanes of a vector hold
/// four frames, so that the result for a frame doesn't depend on its position in the clip.
class power_spectrum {
 public:
  /// The distance between bins, in numbers: two times four frames.
  static constexpr std::size_t power_step = 2 * lane_count;

  explicit power_spectrum(std::size_t length);

  /// The number of bins, from 0 to half the sample rate.
  std::size_t bins() const noexcept { return length_ / 2 + 1; }

  /// The factor by which the input must be multiplied.
  double input_scale() const noexcept { return length_ % 2 == 0 ? 0.5 : 1; }

  /// The size of a row of transform() and square(), in numbers; a multiple of 16.
  std::size_t row() const noexcept { return row_; }

  /// Transforms the frame `from`, of length() numbers with room for 2 · length, to row `lane` of `rows`. Both
  /// must be aligned as for fft_plan. Changes `from` if the length is odd.
  void transform(float* from, float* rows, std::size_t lane) const noexcept;

  /// Writes bin k of the four rows to power[power_step · k …].
  void square(const float* rows, float* power) const noexcept;

 private:
  // Two neighbouring complex numbers of each row.
  struct quad {
    float_lanes re0, im0, re1, im1;
  };

  quad load(const float* from) const noexcept {
    quad q{load_lanes(from), load_lanes(from + row_), load_lanes(from + 2 * row_),
           load_lanes(from + 3 * row_)};
    transpose(q.re0, q.im0, q.re1, q.im1);
    return q;
  }

  // Computes the bins k and n/2-k from a = Z[k] and b = Z[n/2-k].
  void square_pair(float_lanes a_re, float_lanes a_im, float_lanes b_re, float_lanes b_im, std::size_t k,
                   float* power) const noexcept;

  std::size_t length_;
  std::size_t transformed_; // complex numbers
  std::size_t row_;
  std::shared_ptr<const fft_plan> plan_;
  std::vector<float> turns_; // cosine and sine of 2πk/n
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_AUDIO)
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
#endif
