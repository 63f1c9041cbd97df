// SPDX-License-Identifier: MIT
#pragma once
// Writes JPEGs of every kind that libjpeg supports.
#include <feedline/core/random.hpp>
#include <feedline/image/jpeg_encoder.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <span>
#include <vector>

namespace feedline::test {

struct jpeg_recipe {
  J_COLOR_SPACE from = JCS_RGB;     ///< of the input pixels
  J_COLOR_SPACE stored = JCS_YCbCr; ///< of the file
  int quality = 95;
  int across = 1, down = 1; ///< samples of the first component per sample of the others, across and down
  bool progressive = false;
  bool arithmetic = false;
  bool optimized = false; ///< Huffman tables of its own
  bool interleaved = true;
  int restart_rows = 0;
  unsigned restart_interval = 0; ///< MCUs between restart markers
  bool adobe_marker = true;      ///< for CMYK
  std::vector<std::byte> exif = {};
};

/// A colour space of a file, and pixels to write it from.
struct color_recipe {
  J_COLOR_SPACE stored, from;
  std::size_t channels; ///< of the pixels
};

inline constexpr std::array color_recipes{
    color_recipe{JCS_YCbCr, JCS_RGB, 3}, color_recipe{JCS_RGB, JCS_RGB, 3},
    color_recipe{JCS_GRAYSCALE, JCS_GRAYSCALE, 1}, color_recipe{JCS_CMYK, JCS_CMYK, 4},
    color_recipe{JCS_YCCK, JCS_CMYK, 4}};

inline std::vector<std::byte> write_jpeg(const tensor<std::uint8_t>& image, const jpeg_recipe& recipe = {}) {
  detail::libjpeg_errors errors;
  detail::jpeg_vector_destination destination(4096);
  detail::jpeg_compressor state;
  state.err = &errors;
  errors.run("write_jpeg", [&] {
    jpeg_create_compress(&state);
    state.dest = &destination;
    state.image_height = static_cast<JDIMENSION>(image.shape()[0]);
    state.image_width = static_cast<JDIMENSION>(image.shape()[1]);
    state.input_components = static_cast<int>(image.shape()[2]);
    state.in_color_space = recipe.from;
    jpeg_set_defaults(&state);
    jpeg_set_colorspace(&state, recipe.stored);
    jpeg_set_quality(&state, recipe.quality, TRUE);
    for (int i = 0; i < state.num_components; ++i) {
      const bool full = i == 0 || i == 3; // black has the same resolution as the first component
      state.comp_info[i].h_samp_factor = full ? recipe.across : 1;
      state.comp_info[i].v_samp_factor = full ? recipe.down : 1;
    }
    if (recipe.progressive) jpeg_simple_progression(&state);
    jpeg_scan_info scans[4] = {};
    if (!recipe.interleaved) {
      for (int i = 0; i < state.num_components; ++i)
        scans[i] = {.comps_in_scan = 1, .component_index = {i, 0, 0, 0}, .Ss = 0, .Se = 63, .Ah = 0, .Al = 0};
      state.scan_info = scans;
      state.num_scans = state.num_components;
    }
    state.arith_code = recipe.arithmetic ? TRUE : FALSE;
    if (recipe.optimized) state.optimize_coding = TRUE;
    state.restart_in_rows = recipe.restart_rows;
    state.restart_interval = recipe.restart_interval;
    if (!recipe.adobe_marker) state.write_Adobe_marker = FALSE;
    jpeg_start_compress(&state, TRUE);
    if (!recipe.exif.empty())
      jpeg_write_marker(&state, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(recipe.exif.data()),
                        static_cast<unsigned>(recipe.exif.size()));
    while (state.next_scanline < state.image_height) {
      auto* row = const_cast<JSAMPLE*>(image.at(state.next_scanline).data());
      jpeg_write_scanlines(&state, &row, 1);
    }
    jpeg_finish_compress(&state);
  });
  return destination.take();
}

inline std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> result;
  for (const int value : values) result.push_back(static_cast<std::byte>(value));
  return result;
}

/// An APP1 payload whose directory has this orientation as its second entry.
inline std::vector<std::byte> exif_payload(int orientation, bool big_endian = false) {
  if (big_endian)
    return bytes({'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8, 0, 2,           1, 0, 0, 3, 0, 0,
                  0,   1,   0,   9,   0, 0, 1,   18,  0, 3,  0, 0, 0, 1, 0, orientation, 0, 0, 0, 0, 0, 0});
  return bytes({'E', 'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 2,           0, 0, 1, 3, 0, 1, 0,
                0,   0,   9,   0,   0, 0, 18,  1,   3,  0, 1, 0, 0, 0, orientation, 0, 0, 0, 0, 0, 0, 0});
}

/// Pixels that change smoothly and differ between channels and corners.
inline tensor<std::uint8_t> gradient(std::size_t height, std::size_t width, std::size_t channels) {
  tensor<std::uint8_t> image(shape{height, width, channels});
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < width; ++x)
      for (std::size_t c = 0; c < channels; ++c) {
        const std::size_t across = 200 * x / width, down = 200 * y / height;
        const std::size_t value = c == 0   ? across
                                  : c == 1 ? down
                                  : c == 2 ? (across + down) / 2
                                           : 255 - down / 2;
        image[(y * width + x) * channels + c] = static_cast<std::uint8_t>(25 + value * 210 / 255);
      }
  return image;
}

/// Random pixels, the same for each call.
inline tensor<std::uint8_t> noise(std::size_t height, std::size_t width, std::size_t channels) {
  tensor<std::uint8_t> image(shape{height, width, channels});
  random_generator random(height * 1000 + width);
  for (auto& value : image) value = static_cast<std::uint8_t>(random.below(256));
  return image;
}

/// The largest difference between two images of the same shape; 256 if the shapes differ.
inline int largest_difference(const tensor<std::uint8_t>& a, const tensor<std::uint8_t>& b) {
  if (!(a.shape() == b.shape())) return 256;
  int largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(int{a[i]} - int{b[i]}));
  return largest;
}

} // namespace feedline::test
