// SPDX-License-Identifier: MIT
#pragma once
// What libjpeg-turbo alone can do with parts of an image, and how it is done where FEEDLINE_PLAIN_LIBJPEG says that
// libjpeg is a plain one.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <feedline/image/detail/pixel_rows.hpp>
#include <feedline/image/jpeg_error.hpp>

#if !defined(FEEDLINE_PLAIN_LIBJPEG) && !defined(LIBJPEG_TURBO_VERSION)
#error "feedline needs libjpeg-turbo; it takes a plain libjpeg if -DFEEDLINE_ALLOW_PLAIN_LIBJPEG=ON"
#endif

namespace feedline::inline v0::detail {

#ifdef FEEDLINE_PLAIN_LIBJPEG

/// Says once in a program, on standard error, what a plain libjpeg costs.
inline void mention_plain_libjpeg() noexcept {
  [[maybe_unused]] static const bool said =
      std::fputs(
          "feedline: this libjpeg isn't libjpeg-turbo: where a part of an image is wanted, all of it is "
          "decoded. To decode parts only, build with libjpeg-turbo.\n",
          stderr) >= 0;
}

/// Has rows come with three bytes a pixel, and gives the function that makes four of them: red, green, blue and one
/// that is unspecified.
inline row_conversion choose_four_bytes(jpeg_decompress_struct& state) noexcept {
  state.out_color_space = JCS_RGB;
  return [](std::uint8_t* row, std::size_t width) {
    for (std::size_t x = width; x-- > 0;) // from the end, where there is room
      for (std::size_t i = 3; i-- > 0;) row[4 * x + i] = row[3 * x + i];
  };
}

/// Has rows come with all columns.
inline void choose_columns(jpeg_decompress_struct&, JDIMENSION& left, JDIMENSION&) noexcept { left = 0; }

/// Goes to row `top`. What is before it goes through `scratch`.
inline void skip_rows(jpeg_decompress_struct& state, JDIMENSION top, std::vector<std::uint8_t>& scratch) {
  const std::size_t row_bytes =
      std::size_t{state.output_width} * static_cast<std::size_t>(state.out_color_components);
  if (scratch.size() < row_bytes) scratch.resize(row_bytes);
  JSAMPROW row = scratch.data();
  while (state.output_scanline < top)
    if (jpeg_read_scanlines(&state, &row, 1) == 0)
      libjpeg_errors::of(&state).fail("The image has fewer rows than its header says");
}

#else

inline void mention_plain_libjpeg() noexcept {}

/// Has rows come with four bytes a pixel: red, green, blue and one that is unspecified. Nothing is left to convert.
inline row_conversion choose_four_bytes(jpeg_decompress_struct& state) noexcept {
  state.out_color_space = JCS_EXT_RGBX;
  return nullptr;
}

/// Has rows come with these columns and some more on their left: `left` is where they begin then.
inline void choose_columns(jpeg_decompress_struct& state, JDIMENSION& left, JDIMENSION& width) {
  jpeg_crop_scanline(&state, &left, &width);
}

/// Goes to row `top`.
inline void skip_rows(jpeg_decompress_struct& state, JDIMENSION top, std::vector<std::uint8_t>&) {
  if (top > 0) jpeg_skip_scanlines(&state, top);
}

#endif

} // namespace feedline::inline v0::detail
