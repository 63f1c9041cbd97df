// SPDX-License-Identifier: MIT
#pragma once
// Resizes an image row by row; only the rows in use are kept.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include <feedline/image/detail/axis_filter.hpp>
#include <feedline/image/detail/pixel_rows.hpp>
#include <feedline/image/detail/pixel_scale.hpp>
#include <feedline/image/detail/weighted_rows.hpp>
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
  std::uint64_t bytes(std::size_t row_bytes) const noexcept {
    return std::uint64_t{rows_in_ring()} * pitch_of(row_bytes) +
           sizeof(std::int16_t) * region_.width * channels_;
  }

  /// Fills the view, which has the planned size. `read(rows, count)` writes the region's next `count` rows to
  /// the addresses in the array `rows`. Each of these rows has `row_bytes` bytes; the region begins at its
  /// pixel `lead`.
  template <class T, class Read>
  void run(const image_view<T>& to, const pixel_scale& scale, std::size_t lead, std::size_t row_bytes,
           Read read) {
    const bool is_mirrored = to.column_step < 0;
    const image_view<T> line = is_mirrored ? to.mirrored() : to;
    const std::size_t elements = region_.width * channels_;
    pitch_ = pitch_of(row_bytes);
    ring_rows_ = rows_in_ring();
    grow(ring_, pitch_ * ring_rows_);
    grow(sums_,
         padded_row(elements) + 4 * (columns_.widest() + taps_in_group)); // taps of weight 0 are read too
    grow(pixels_, 4 * columns_.size());
    if (channels_ == 4) group_weights(is_mirrored);

    std::size_t have = rows_.begin(); // the next row to read
    for (std::size_t y = 0; y < rows_.size(); ++y) {
      const axis_filter::taps taps = rows_[y];
      while (have < taps.first + taps.count) {
        std::array<std::uint8_t*, strip_rows> strip;
        const std::size_t count = std::min(strip_rows, rows_.end() - have);
        for (std::size_t i = 0; i < count; ++i) strip[i] = row(have + i);
        read(strip.data(), count);
        have += count;
      }
      for (std::size_t k = 0; k < taps.count; ++k) taken_[k] = row(taps.first + k) + lead * channels_;
      sum_rows(taken_.data(), taps.weights, taps.count, elements, sums_.data());
      if (channels_ == 4) {
        sum_pixels(sums_.data(), starts_.data(), grouped_.data(), groups_, columns_.size(), pixels_.data());
        store_colors(line, y, scale);
      } else {
        store_gray(to, y, scale);
      }
    }
  }

 private:
  static_assert(pixel_scale::bits == sum_bits + axis_filter::weight_bits);

  template <class Vector>
  static void grow(Vector& v, std::size_t size) {
    if (v.size() < size) v.resize(size);
  }

  static std::size_t pitch_of(std::size_t row_bytes) noexcept { return padded_row(row_bytes) + row_block; }

  std::size_t rows_in_ring() const noexcept { return rows_.widest() + std::min(strip_rows, region_.height); }

  std::uint8_t* row(std::size_t y) noexcept { return ring_.data() + y % ring_rows_ * pitch_; }

  // Stores weights in the order that sum_pixels() expects.
  void group_weights(bool mirrored);

  // Stores four pixels at a time, transposed so that each channel's values are contiguous. Returns the number
  // of stored pixels.
  static std::size_t store_planes(const std::int32_t* pixels, std::size_t count, float* red,
                                  std::ptrdiff_t channel_step, bool has_alpha, const pixel_scale scale);

  template <class T>
  void store_colors(const image_view<T>& to, std::size_t y, const pixel_scale& scale) {
    T* const line = &to(y, 0, 0);
    const std::size_t width = to.width, channels = to.channels;
    std::size_t x = 0;
    if constexpr (std::is_same_v<T, float>)
      if (to.column_step == 1)
        x = store_planes(pixels_.data(), width, line, to.channel_step, channels == 4, scale);
    for (; x < width; ++x)
      for (std::size_t c = 0; c < channels; ++c)
        line[static_cast<std::ptrdiff_t>(x) * to.column_step +
             static_cast<std::ptrdiff_t>(c) * to.channel_step] =
            scale.template scaled<T>(pixels_[4 * x + c], c);
  }

  template <class T>
  void store_gray(const image_view<T>& to, std::size_t y, const pixel_scale& scale) {
    for (std::size_t x = 0; x < columns_.size(); ++x) {
      const axis_filter::taps taps = columns_[x];
      std::int32_t sum = 0;
      for (std::size_t k = 0; k < taps.count; ++k)
        sum += taps.weights[k] * sums_[taps.first - region_.left + k];
      to(y, x, 0) = scale.template scaled<T>(sum, 0);
    }
  }

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
