// SPDX-License-Identifier: MIT
#pragma once
// Writes WebP images, and adds chunks to them.
#include <feedline/core/tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <webp/encode.h>

namespace feedline::test {

/// An image of 3 or 4 channels, with or without loss.
inline std::vector<std::byte> write_webp(const tensor<std::uint8_t>& image, bool is_lossless = false) {
  const int height = static_cast<int>(image.shape()[0]), width = static_cast<int>(image.shape()[1]);
  const bool has_alpha = image.shape()[2] == 4;
  const int pitch = width * (has_alpha ? 4 : 3);
  std::uint8_t* out = nullptr;
  std::size_t size = 0;
  if (is_lossless) {
    WebPConfig config;
    WebPConfigInit(&config);
    config.lossless = config.exact = 1; // keeps colours that are transparent
    WebPPicture picture;
    WebPPictureInit(&picture);
    WebPMemoryWriter writer;
    WebPMemoryWriterInit(&writer);
    picture.use_argb = 1;
    picture.width = width;
    picture.height = height;
    picture.writer = WebPMemoryWrite;
    picture.custom_ptr = &writer;
    if (has_alpha) WebPPictureImportRGBA(&picture, image.data(), pitch);
    else WebPPictureImportRGB(&picture, image.data(), pitch);
    WebPEncode(&config, &picture);
    WebPPictureFree(&picture);
    out = writer.mem;
    size = writer.size;
  } else {
    size = (has_alpha ? WebPEncodeRGBA : WebPEncodeRGB)(image.data(), width, height, pitch, 90, &out);
  }
  const std::unique_ptr<std::uint8_t, decltype(&WebPFree)> owner(out, [](void* memory) { WebPFree(memory); });
  const auto bytes = std::as_bytes(std::span(out, size));
  return {bytes.begin(), bytes.end()};
}

/// The same image in the extended format with these flags, which has another chunk after its pixels.
inline std::vector<std::byte> extended_webp(const std::vector<std::byte>& plain, std::uint8_t flags,
                                            int height, int width, std::string_view name,
                                            const std::vector<std::byte>& payload) {
  std::vector<std::byte> file;
  const auto add = [&file](std::string_view text) {
    for (const char c : text) file.push_back(static_cast<std::byte>(c));
  };
  const auto add_number = [&file](std::size_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) file.push_back(static_cast<std::byte>(value >> (8 * i) & 255));
  };
  const std::size_t padded = payload.size() + payload.size() % 2;
  add("RIFF");
  add_number(4 + 18 + plain.size() - 12 + 8 + padded, 4);
  add("WEBPVP8X");
  add_number(10, 4);
  add_number(flags, 4);
  add_number(static_cast<std::size_t>(width - 1), 3);
  add_number(static_cast<std::size_t>(height - 1), 3);
  file.insert(file.end(), plain.begin() + 12, plain.end());
  add(name);
  add_number(payload.size(), 4);
  file.insert(file.end(), payload.begin(), payload.end());
  if (payload.size() % 2 != 0) add_number(0, 1);
  return file;
}

/// An image of an animation, and its place on the canvas.
struct webp_frame {
  int top, left; ///< even numbers
  const tensor<std::uint8_t>& image;
  bool is_lossless = true;
};

inline std::vector<std::byte> animated_webp(int height, int width, std::initializer_list<webp_frame> frames) {
  std::vector<std::byte> file;
  const auto add = [&file](std::string_view text) {
    for (const char c : text) file.push_back(static_cast<std::byte>(c));
  };
  const auto add_number = [&file](std::size_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) file.push_back(static_cast<std::byte>(value >> (8 * i) & 255));
  };
  const auto add_size = [&](int rows, int columns) {
    add_number(static_cast<std::size_t>(columns - 1), 3);
    add_number(static_cast<std::size_t>(rows - 1), 3);
  };
  add("WEBPVP8X");
  add_number(10, 4);
  add_number(0x12, 4); // an animation with alpha
  add_size(height, width);
  add("ANIM");
  add_number(6, 4);
  add_number(0xffffffff, 4); // a background, which readers leave out
  add_number(0, 2);
  for (const webp_frame& frame : frames) {
    const auto whole = write_webp(frame.image, frame.is_lossless);
    const bool is_extended = whole[15] == std::byte{'X'};
    const auto chunks = std::span(whole).subspan(is_extended ? 30 : 12);
    add("ANMF");
    add_number(16 + chunks.size(), 4);
    add_number(static_cast<std::size_t>(frame.left / 2), 3);
    add_number(static_cast<std::size_t>(frame.top / 2), 3);
    add_size(static_cast<int>(frame.image.shape()[0]), static_cast<int>(frame.image.shape()[1]));
    add_number(100, 4); // milliseconds
    file.insert(file.end(), chunks.begin(), chunks.end());
  }
  const std::size_t size = file.size();
  add("RIFF");
  add_number(size, 4);
  std::rotate(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size), file.end());
  return file;
}

} // namespace feedline::test
