// SPDX-License-Identifier: MIT
#pragma once
// Reads PNG files into pixels, which are the references for JPEGs.
#include <feedline/core/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>

#include <png.h>

namespace feedline::test {

/// The pixels as [height, width, 3].
inline tensor<std::uint8_t> read_png(std::span<const std::byte> file) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&image, file.data(), file.size()) == 0)
    throw std::runtime_error(image.message);
  image.format = PNG_FORMAT_RGB;
  tensor<std::uint8_t> pixels(shape{image.height, image.width, 3});
  const png_color black{};
  if (png_image_finish_read(&image, &black, pixels.data(), 0, nullptr) == 0)
    throw std::runtime_error(image.message);
  return pixels;
}

} // namespace feedline::test
