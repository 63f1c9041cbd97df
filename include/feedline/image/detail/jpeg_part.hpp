// SPDX-License-Identifier: MIT
#pragma once
// Decoding parts of an image, which only libjpeg-turbo can do, and the replacement for a plain libjpeg, which
// FEEDLINE_PLAIN_LIBJPEG selects.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include <feedline/image/detail/pixel_rows.hpp>
#include <feedline/image/jpeg_error.hpp>

#if !defined(FEEDLINE_PLAIN_LIBJPEG) && !defined(LIBJPEG_TURBO_VERSION)
#error "feedline needs libjpeg-turbo; it takes a plain libjpeg if -DFEEDLINE_ALLOW_PLAIN_LIBJPEG=ON"
#endif

namespace feedline::inline FEEDLINE_ABI::detail {

#ifdef FEEDLINE_PLAIN_LIBJPEG

/// Prints once per process, on standard error, what a plain libjpeg costs.
inline void mention_plain_libjpeg() noexcept {
  [[maybe_unused]] static const bool said =
      std::fputs(
          "feedline: this libjpeg isn't libjpeg-turbo: decoding a part of an image decodes the whole image. "
          "To decode only the part, build with libjpeg-turbo.\n",
          stderr) >= 0;
}

/// Makes libjpeg decode to three bytes per pixel, and returns the function that expands them to four: red,
/// green, blue and 255.
inline row_conversion choose_four_bytes(jpeg_decompress_struct& state) noexcept {
  state.out_color_space = JCS_RGB;
  return [](std::uint8_t* row, std::size_t width) {
    for (std::size_t x = width; x-- > 0;) { // backwards, because it works in place
      for (std::size_t i = 3; i-- > 0;) row[4 * x + i] = row[3 * x + i];
      row[4 * x + 3] = 255;
    }
  };
}

inline bool can_choose_columns(const jpeg_decompress_struct&) noexcept { return true; }

/// Decodes all columns: a plain libjpeg can't decode fewer.
inline void choose_columns(jpeg_decompress_struct&, JDIMENSION& left, JDIMENSION&) noexcept { left = 0; }

/// Skips the rows before `top`, by decoding them into `scratch`.
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

/// Makes libjpeg decode to four bytes per pixel: red, green, blue and 255. No conversion is needed.
inline row_conversion choose_four_bytes(jpeg_decompress_struct& state) noexcept {
  state.out_color_space = JCS_EXT_RGBA;
  return nullptr;
}

/// Whether choose_columns() works. At a smaller size libjpeg decodes colours to more samples than their sampling factor
/// says; jpeg_crop_scanline() then computes too few of them, which shows where they aren't at full size (4 x 2, 2 x 4).
inline bool can_choose_columns(const jpeg_decompress_struct& state) noexcept {
  for (int i = 0; i < state.num_components; ++i) {
    const jpeg_component_info& c = state.comp_info[i];
    const std::uint64_t samples =
        std::uint64_t{state.output_width} * static_cast<std::uint64_t>(c.h_samp_factor);
    const auto most = static_cast<std::uint64_t>(state.max_h_samp_factor);
    const bool is_full =
        c.downsampled_width == state.output_width && c.downsampled_height == state.output_height;
    if (c.downsampled_width > (samples + most - 1) / most && !is_full) return false;
  }
  return true;
}

/// Decodes only these columns and some on their left, and sets `left` to the first of them.
inline void choose_columns(jpeg_decompress_struct& state, JDIMENSION& left, JDIMENSION& width) {
  jpeg_crop_scanline(&state, &left, &width);
}

/// Skips the rows before `top`.
inline void skip_rows(jpeg_decompress_struct& state, JDIMENSION top, std::vector<std::uint8_t>&) {
  if (top > 0) jpeg_skip_scanlines(&state, top);
}

#endif

} // namespace feedline::inline FEEDLINE_ABI::detail
