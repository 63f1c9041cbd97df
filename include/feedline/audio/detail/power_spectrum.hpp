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

#ifndef FEEDLINE_COMPILED
#include <feedline/audio/detail/power_spectrum.ipp>
#endif
