// SPDX-License-Identifier: MIT
#pragma once
// Resizes an image row by row; only the rows in use are kept.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <feedline/detail/function_ref.hpp>
#include <feedline/image/detail/axis_filter.hpp>
#include <feedline/image/detail/pixel_scale.hpp>
#include <feedline/image/image_view.hpp>
#include <feedline/image/resize_options.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Keep one per thread: it reuses its memory for every image.
///
///     rows of bytes ─▶ ring ─▶ weighted sum of rows ─▶ weighted sum of their pixels ─▶ scaled, into the view
class resampler {
 public:
  /// The input rows and columns that contribute.
  struct region {
    std::size_t top, left, height, width;
  };

  /// Input pixels have 4 channels, of which the last is ignored if the result has 3, or 1.
  region plan(const axis_map& rows, const axis_map& columns, std::size_t channels, interpolation kind,
              bool antialias);

  /// The memory that run() takes for rows of `row_bytes` bytes.
  std::uint64_t bytes(std::size_t row_bytes) const noexcept;

  /// Writes the region's next `count` rows to the addresses in the array `rows`.
  using row_reader = function_ref<void(std::uint8_t** rows, std::size_t count)>;

  /// Fills the view, which has the planned size. Each of the rows that are read has `row_bytes` bytes; the region begins
  /// at its pixel `lead`.
  template <class T>
  void run(const image_view<T>& to, const pixel_scale& scale, std::size_t lead, std::size_t row_bytes,
           row_reader read);

 private:
  std::size_t rows_in_ring() const noexcept;

  std::uint8_t* row(std::size_t y) noexcept { return ring_.data() + y % ring_rows_ * pitch_; }

  // Stores weights in the order that sum_pixels() expects.
  void group_weights(bool mirrored);

  // Stores four pixels at a time, transposed so that each channel's values are contiguous. Returns the number
  // of stored pixels.
  static std::size_t store_planes(const std::int32_t* pixels, std::size_t count, float* red,
                                  std::ptrdiff_t channel_step, bool has_alpha, const pixel_scale scale);

  template <class T>
  void store_colors(const image_view<T>& to, std::size_t y, const pixel_scale& scale) const;

  template <class T>
  void store_gray(const image_view<T>& to, std::size_t y, const pixel_scale& scale) const;

  axis_filter rows_, columns_;
  region region_{};
  std::size_t channels_ = 0;
  std::size_t pitch_ = 0; // bytes from row to row of the ring
  std::size_t ring_rows_ = 0;
  std::size_t groups_ = 0; // of taps per output pixel
  std::vector<std::uint8_t> ring_;
  std::vector<std::int16_t> sums_;
  std::vector<std::int32_t> pixels_;
  std::vector<std::int16_t> grouped_;
  std::vector<std::uint32_t> starts_;
  std::vector<const std::uint8_t*> taken_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/image/detail/resampler.ipp>
#endif
