// SPDX-License-Identifier: MIT
#pragma once
// Processes decoded rows of pixels: converts colours that libraries don't convert, and applies the
// orientation.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <feedline/image/image_view.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Converts a row of `width` pixels in place.
using row_conversion = void (*)(std::uint8_t* row, std::size_t width);

/// Luma in libjpeg's fixed point: 0.299, 0.587 and 0.114 of 2^16, rounded.
constexpr std::uint8_t luma(unsigned red, unsigned green, unsigned blue) noexcept {
  return static_cast<std::uint8_t>((19595 * red + 38470 * green + 7471 * blue + 32768) >> 16);
}

/// v/255, rounded, of a number up to 255².
constexpr std::uint8_t over_255(unsigned v) noexcept {
  return static_cast<std::uint8_t>((v + 128 + ((v + 128) >> 8)) >> 8);
}

/// a·b/255 of two bytes, rounded.
constexpr std::uint8_t scale_byte(unsigned a, unsigned b) noexcept { return over_255(a * b); }

/// Converts pixels of `Bytes` bytes, which begin with red, green and blue, to gray.
template <std::size_t Bytes>
void to_gray(std::uint8_t* row, std::size_t width) {
  for (std::size_t x = 0; x < width; ++x)
    row[x] = luma(row[Bytes * x], row[Bytes * x + 1], row[Bytes * x + 2]);
}

/// Drops alpha.
inline void rgba_to_rgb(std::uint8_t* row, std::size_t width) {
  for (std::size_t x = 0; x < width; ++x)
    for (std::size_t i = 0; i < 3; ++i) row[3 * x + i] = row[4 * x + i];
}

/// Lets the background show through pixels of red, green, blue and alpha, which then is 255.
inline void lay_over(const std::array<std::uint8_t, 3>& background, std::uint8_t* row, std::size_t width) {
  for (std::uint8_t* const end = row + 4 * width; row != end; row += 4) {
    const unsigned alpha = row[3];
    for (std::size_t i = 0; i < 3; ++i) row[i] = over_255(row[i] * alpha + background[i] * (255 - alpha));
    row[3] = 255;
  }
}

/// Converts CMYK to RGB with `Bytes` bytes per pixel: red, green, blue and, if there are 4, 255.
template <std::size_t Bytes>
void cmyk_to_rgb(std::uint8_t* row, std::size_t width) {
  for (std::size_t x = 0; x < width; ++x) {
    for (std::size_t i = 0; i < 3; ++i) row[Bytes * x + i] = scale_byte(row[4 * x + i], row[4 * x + 3]);
    if constexpr (Bytes == 4) row[4 * x + 3] = 255;
  }
}

inline void cmyk_to_gray(std::uint8_t* row, std::size_t width) {
  cmyk_to_rgb<3>(row, width);
  to_gray<3>(row, width);
}

/// The number of rows that are decoded at a time.
inline constexpr std::size_t strip_rows = 16;

/// Copies rows of pixels, which are `pitch` bytes apart, to the rows first, first + 1, … of a view.
void place_rows(const std::uint8_t* rows, std::size_t pitch, std::size_t first, std::size_t count,
                const image_view<std::uint8_t>& to) noexcept;

/// Fills a view of an image as stored. `read(rows, count)` writes the next `count` rows to the addresses in the
/// array `rows`, `row_bytes` bytes each: in place if it `converts` nothing and the rows stay rows that run from
/// left to right, otherwise in `strip`.
template <class Read>
void read_rows_into(const image_view<std::uint8_t>& to, std::size_t row_bytes, bool converts,
                    std::vector<std::uint8_t>& strip, Read read) {
  const bool in_place = !converts && to.column_step == static_cast<std::ptrdiff_t>(to.channels);
  const std::size_t most = std::min(strip_rows, to.height) * row_bytes;
  if (!in_place && strip.size() < most) strip.resize(most);
  for (std::size_t y = 0; y < to.height; y += strip_rows) {
    const std::size_t count = std::min(strip_rows, to.height - y);
    std::array<std::uint8_t*, strip_rows> rows;
    for (std::size_t i = 0; i < count; ++i)
      rows[i] = in_place ? &to(y + i, 0, 0) : strip.data() + i * row_bytes;
    read(rows.data(), count);
    if (!in_place) place_rows(strip.data(), row_bytes, y, count, to);
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_IMAGE)
#include <cstdlib>
#include <cstring>

namespace feedline::inline FEEDLINE_ABI::detail {

// The inner loop runs along the oriented image's rows, so that it writes neighbouring bytes. It uses copies of
// the view's members, because the compiler must assume that writing bytes changes the members.
template <std::size_t Channels>
void place_pixels(const std::uint8_t* rows, std::size_t pitch, std::size_t first, std::size_t count,
                  const image_view<std::uint8_t>& to) noexcept {
  std::uint8_t* const data = &to(first, 0, 0);
  const std::ptrdiff_t right = to.column_step, down = to.row_step;
  const auto copy = [=](std::size_t x, std::size_t y) {
    std::memcpy(data + static_cast<std::ptrdiff_t>(x) * right + static_cast<std::ptrdiff_t>(y) * down,
                rows + y * pitch + x * Channels, Channels);
  };
  const std::size_t width = to.width;
  if (std::abs(right) > std::abs(down))
    for (std::size_t x = 0; x < width; ++x)
      for (std::size_t y = 0; y < count; ++y) copy(x, y);
  else
    for (std::size_t y = 0; y < count; ++y)
      for (std::size_t x = 0; x < width; ++x) copy(x, y);
}

FEEDLINE_INLINE void place_rows(const std::uint8_t* rows, std::size_t pitch, std::size_t first,
                                std::size_t count, const image_view<std::uint8_t>& to) noexcept {
  if (to.channels == 3) place_pixels<3>(rows, pitch, first, count, to);
  else if (to.channels == 4) place_pixels<4>(rows, pitch, first, count, to);
  else place_pixels<1>(rows, pitch, first, count, to);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
