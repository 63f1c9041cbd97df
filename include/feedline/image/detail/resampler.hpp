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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_IMAGE)
#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include <feedline/core/half.hpp>
#include <feedline/image/detail/pixel_rows.hpp>
#include <feedline/image/detail/weighted_rows.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE resampler::region resampler::plan(const axis_map& rows, const axis_map& columns,
                                                  std::size_t channels, interpolation kind, bool antialias) {
  rows_.plan(rows, kind, antialias);
  columns_.plan(columns, kind, antialias);
  channels_ = channels;
  taken_.resize(rows_.widest());
  region_ = {rows_.begin(), columns_.begin(), rows_.end() - rows_.begin(), columns_.end() - columns_.begin()};
  return region_;
}

// From row to row of the ring.
FEEDLINE_INLINE std::size_t pitch_of(std::size_t row_bytes) noexcept {
  return padded_row(row_bytes) + row_padding;
}

FEEDLINE_INLINE std::size_t resampler::rows_in_ring() const noexcept {
  return rows_.widest() + std::min(strip_rows, region_.height);
}

FEEDLINE_INLINE std::uint64_t resampler::bytes(std::size_t row_bytes) const noexcept {
  return std::uint64_t{rows_in_ring()} * pitch_of(row_bytes) +
         sizeof(std::int16_t) * region_.width * channels_;
}

FEEDLINE_INLINE void resampler::group_weights(bool mirrored) {
  groups_ = (columns_.widest() + taps_in_group - 1) / taps_in_group;
  starts_.resize(columns_.size());
  grouped_.assign(columns_.size() * groups_ * weights_in_group, 0);
  for (std::size_t x = 0; x < columns_.size(); ++x) {
    const axis_filter::taps taps = columns_[mirrored ? columns_.size() - 1 - x : x];
    starts_[x] = static_cast<std::uint32_t>(taps.first - region_.left);
    std::int16_t* const weights = grouped_.data() + x * groups_ * weights_in_group;
    for (std::size_t k = 0; k < taps.count; ++k)
      for (std::size_t c = 0; c < 4; ++c)
        weights[k / taps_in_group * weights_in_group + k % taps_in_group / 2 * 8 + 2 * c + k % 2] =
            taps.weights[k];
  }
}

FEEDLINE_INLINE std::size_t resampler::store_planes(const std::int32_t* pixels, std::size_t count, float* red,
                                                    std::ptrdiff_t channel_step, bool has_alpha,
                                                    const pixel_scale scale) {
  using ints [[gnu::vector_size(16)]] = std::int32_t;
  using floats [[gnu::vector_size(16)]] = float;
  float* const green = red + channel_step;
  float* const blue = green + channel_step;
  const auto store = [&scale](float* to, const ints& sums, std::size_t channel) {
    const floats scaled =
        __builtin_convertvector(sums - scale.offset(channel), floats) * scale.factor(channel);
    std::memcpy(to, &scaled, sizeof scaled);
  };
  std::size_t x = 0;
  for (; x + 4 <= count; x += 4, pixels += 16) {
    ints a, b, c, d;
    std::memcpy(&a, pixels, sizeof a);
    std::memcpy(&b, pixels + 4, sizeof b);
    std::memcpy(&c, pixels + 8, sizeof c);
    std::memcpy(&d, pixels + 12, sizeof d);
    const ints ab = __builtin_shufflevector(a, b, 0, 4, 1, 5); // red, red, green, green
    const ints cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    store(red + x, __builtin_shufflevector(ab, cd, 0, 1, 4, 5), 0);
    store(green + x, __builtin_shufflevector(ab, cd, 2, 3, 6, 7), 1);
    const ints ab_rest = __builtin_shufflevector(a, b, 2, 6, 3, 7); // blue, blue, alpha, alpha
    const ints cd_rest = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    store(blue + x, __builtin_shufflevector(ab_rest, cd_rest, 0, 1, 4, 5), 2);
    if (has_alpha) store(blue + channel_step + x, __builtin_shufflevector(ab_rest, cd_rest, 2, 3, 6, 7), 3);
  }
  return x;
}

template <class T>
void resampler::store_colors(const image_view<T>& to, std::size_t y, const pixel_scale& scale) const {
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
void resampler::store_gray(const image_view<T>& to, std::size_t y, const pixel_scale& scale) const {
  for (std::size_t x = 0; x < columns_.size(); ++x) {
    const axis_filter::taps taps = columns_[x];
    std::int32_t sum = 0;
    for (std::size_t k = 0; k < taps.count; ++k)
      sum += taps.weights[k] * sums_[taps.first - region_.left + k];
    to(y, x, 0) = scale.template scaled<T>(sum, 0);
  }
}

template <class T>
void resampler::run(const image_view<T>& to, const pixel_scale& scale, std::size_t lead,
                    std::size_t row_bytes, row_reader read) {
  static_assert(pixel_scale::bits == sum_bits + axis_filter::weight_bits);
  const auto grow = [](auto& v, std::size_t size) {
    if (v.size() < size) v.resize(size);
  };
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

#ifdef FEEDLINE_COMPILED
template void resampler::run(const image_view<std::uint8_t>&, const pixel_scale&, std::size_t, std::size_t,
                             row_reader);
template void resampler::run(const image_view<float>&, const pixel_scale&, std::size_t, std::size_t,
                             row_reader);
template void resampler::run(const image_view<float16>&, const pixel_scale&, std::size_t, std::size_t,
                             row_reader);
template void resampler::run(const image_view<bfloat16>&, const pixel_scale&, std::size_t, std::size_t,
                             row_reader);
#endif

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
