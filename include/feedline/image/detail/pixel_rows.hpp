// SPDX-License-Identifier: MIT
#pragma once
// Processes decoded rows of pixels: converts colours that libraries don't convert, and applies the
// orientation.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <feedline/image/exif_orientation.hpp>

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

/// The positions of a stored image's pixels in the oriented image.
class pixel_layout {
 public:
  pixel_layout(exif_orientation orientation, std::size_t width, std::size_t height,
               std::size_t channels) noexcept;

  /// Whether stored rows stay rows that run from left to right, so that they can be decoded in place.
  bool keeps_rows() const noexcept { return !sideways_ && steps_.x > 0; }

  /// The byte at which stored row y begins.
  std::ptrdiff_t row_offset(std::size_t y) const noexcept {
    return steps_.origin + static_cast<std::ptrdiff_t>(y) * steps_.y;
  }

  /// Copies the stored rows first, first + 1, …, which are `pitch` bytes apart, to the oriented image.
  void place(const std::uint8_t* rows, std::size_t pitch, std::size_t first, std::size_t count,
             std::uint8_t* image) const noexcept {
    if (channels_ == 3) place_pixels<3>(rows, pitch, count, image + row_offset(first));
    else if (channels_ == 4) place_pixels<4>(rows, pitch, count, image + row_offset(first));
    else place_pixels<1>(rows, pitch, count, image + row_offset(first));
  }

 private:
  // The position of the stored image's first pixel, and the distances to its right and lower neighbours.
  struct steps {
    std::ptrdiff_t origin, x, y;
  };

  static constexpr steps steps_for(exif_orientation orientation, std::ptrdiff_t columns,
                                   std::ptrdiff_t rows) noexcept {
    switch (orientation) {
    case exif_orientation::mirror_horizontal:
      return {columns - 1, -1, columns};
    case exif_orientation::rotate_180:
      return {columns * rows - 1, -1, -columns};
    case exif_orientation::mirror_vertical:
      return {columns * (rows - 1), 1, -columns};
    case exif_orientation::transpose:
      return {0, rows, 1};
    case exif_orientation::rotate_90:
      return {rows - 1, rows, -1};
    case exif_orientation::transverse:
      return {columns * rows - 1, -rows, -1};
    case exif_orientation::rotate_270:
      return {rows * (columns - 1), -rows, 1};
    case exif_orientation::upright:
      break;
    }
    return {0, 1, columns};
  }

  // The inner loop runs along the oriented image's rows, so that it writes neighbouring bytes. It uses copies
  // of the members, because the compiler must assume that writing bytes changes the members.
  template <std::size_t Channels>
  void place_pixels(const std::uint8_t* rows, std::size_t pitch, std::size_t count,
                    std::uint8_t* to) const noexcept {
    const auto copy = [=, by = steps_](std::size_t x, std::size_t y) {
      std::memcpy(to + static_cast<std::ptrdiff_t>(x) * by.x + static_cast<std::ptrdiff_t>(y) * by.y,
                  rows + y * pitch + x * Channels, Channels);
    };
    const std::size_t width = width_;
    if (sideways_)
      for (std::size_t x = 0; x < width; ++x)
        for (std::size_t y = 0; y < count; ++y) copy(x, y);
    else
      for (std::size_t y = 0; y < count; ++y)
        for (std::size_t x = 0; x < width; ++x) copy(x, y);
  }

  std::size_t width_, channels_;
  bool sideways_;
  steps steps_; // in bytes
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/image/detail/pixel_rows.ipp>
#endif
