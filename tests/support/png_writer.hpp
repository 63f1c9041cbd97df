// SPDX-License-Identifier: MIT
#pragma once
// Writes PNGs of every kind, and changes their chunks.
#include <feedline/core/tensor.hpp>
#include <feedline/image/image_error.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <png.h>

namespace feedline::test {

struct png_recipe {
  int type = PNG_COLOR_TYPE_RGB;
  int bits = 8;
  bool interlaced = false;
  std::vector<png_color> palette = {};
  std::vector<png_byte> palette_alpha = {};
  std::optional<png_color_16> transparent = {}; ///< the colour that has alpha 0
  std::vector<std::byte> exif = {};             ///< a TIFF block
  std::size_t chunk_bytes = 8192;               ///< of pixels in a chunk
};

/// The samples are numbers of `bits` bits, [height, width, channels].
inline std::vector<std::byte> write_png(const tensor<std::uint16_t>& samples, const png_recipe& recipe = {}) {
  const std::size_t height = samples.shape()[0], across = samples.shape()[1] * samples.shape()[2];
  std::vector<std::byte> file;
  std::vector<std::uint8_t> rows;
  for (const std::uint16_t sample : samples) {
    if (recipe.bits == 16) rows.push_back(static_cast<std::uint8_t>(sample >> 8));
    rows.push_back(static_cast<std::uint8_t>(sample & 255));
  }
  detail::jumping_errors<image_error> errors;
  png_structp png = nullptr;
  png_infop info = nullptr;
  errors.run("write_png", [&] {
    png = png_create_write_struct(
        PNG_LIBPNG_VER_STRING, &errors,
        [](png_structp p, png_const_charp message) {
          static_cast<detail::jumping_errors<image_error>*>(png_get_error_ptr(p))->fail("%s", message);
        },
        nullptr);
    info = png_create_info_struct(png);
    png_set_write_fn(
        png, &file,
        [](png_structp p, png_bytep from, std::size_t count) {
          const auto bytes = std::as_bytes(std::span(from, count));
          auto& to = *static_cast<std::vector<std::byte>*>(png_get_io_ptr(p));
          to.insert(to.end(), bytes.begin(), bytes.end());
        },
        nullptr);
    png_set_IHDR(png, info, static_cast<png_uint_32>(samples.shape()[1]), static_cast<png_uint_32>(height),
                 recipe.bits, recipe.type, recipe.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (!recipe.palette.empty())
      png_set_PLTE(png, info, recipe.palette.data(), static_cast<int>(recipe.palette.size()));
    if (!recipe.palette_alpha.empty() || recipe.transparent)
      png_set_tRNS(png, info, recipe.palette_alpha.data(), static_cast<int>(recipe.palette_alpha.size()),
                   recipe.transparent ? &*recipe.transparent : nullptr);
    if (!recipe.exif.empty())
      png_set_eXIf_1(png, info, static_cast<png_uint_32>(recipe.exif.size()),
                     const_cast<png_bytep>(reinterpret_cast<const std::uint8_t*>(recipe.exif.data())));
    png_write_info(png, info);
    png_set_packing(png);
    png_set_compression_buffer_size(png, recipe.chunk_bytes);
    const std::size_t pitch = across * (recipe.bits == 16 ? 2 : 1);
    const int passes = png_set_interlace_handling(png);
    for (int pass = 0; pass < passes; ++pass)
      for (std::size_t y = 0; y < height; ++y) png_write_row(png, rows.data() + y * pitch);
    png_write_end(png, info);
  });
  png_destroy_write_struct(&png, &info);
  return file;
}

/// Pixels of bytes as samples.
inline tensor<std::uint16_t> samples_of(const tensor<std::uint8_t>& image) {
  tensor<std::uint16_t> samples(image.shape());
  for (std::size_t i = 0; i < image.size(); ++i) samples[i] = image[i];
  return samples;
}

/// Makes the checksums of all chunks right again after a change.
inline void mend_png(std::span<std::byte> file) {
  const auto number = [&](std::size_t at) {
    std::size_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::size_t>(file[at + i]);
    return value;
  };
  for (std::size_t at = 8; at + 12 <= file.size();) {
    const std::size_t size = number(at);
    if (size > file.size() - at - 12) return;
    std::uint32_t sum = ~std::uint32_t{0};
    for (std::size_t i = at + 4; i < at + 8 + size; ++i) {
      sum ^= std::to_integer<std::uint32_t>(file[i]);
      for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xedb88320u : 0u);
    }
    for (std::size_t i = 0; i < 4; ++i)
      file[at + 8 + size + i] = static_cast<std::byte>(~sum >> (24 - 8 * i) & 255);
    at += 12 + size;
  }
}

/// The same file with one more chunk, before its pixels or at its end.
inline std::vector<std::byte> with_png_chunk(std::vector<std::byte> file, std::string_view name,
                                             std::span<const std::byte> payload, bool is_at_end = false) {
  constexpr std::ptrdiff_t after_header = 33, end_chunk = 12;
  std::vector<std::byte> chunk;
  for (int shift = 24; shift >= 0; shift -= 8)
    chunk.push_back(static_cast<std::byte>(payload.size() >> shift & 255));
  for (const char c : name) chunk.push_back(static_cast<std::byte>(c));
  chunk.insert(chunk.end(), payload.begin(), payload.end());
  chunk.resize(chunk.size() + 4);
  file.insert(is_at_end ? file.end() - end_chunk : file.begin() + after_header, chunk.begin(), chunk.end());
  mend_png(file);
  return file;
}

} // namespace feedline::test
