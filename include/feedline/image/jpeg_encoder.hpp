// SPDX-License-Identifier: MIT
#pragma once
// Encodes tensors of 8-bit pixels as JPEG files, for programs that create data sets.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <feedline/core/tensor.hpp>
#include <feedline/image/jpeg_error.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// A vector that serves as libjpeg's data destination and grows as needed.
class jpeg_vector_destination : public jpeg_destination_mgr {
 public:
  explicit jpeg_vector_destination(std::size_t expected_size);

  std::vector<std::byte> take();

 private:
  static jpeg_vector_destination& of(j_compress_ptr codec) noexcept {
    return static_cast<jpeg_vector_destination&>(*codec->dest);
  }

  // libjpeg calls it, so no exception may leave it.
  bool grow() noexcept;

  void offer(std::size_t written) noexcept;

  std::vector<std::byte> bytes_;
};

/// A compressor that is destroyed also after an error.
struct jpeg_compressor : jpeg_compress_struct {
  jpeg_compressor() noexcept : jpeg_compress_struct{} {}

  jpeg_compressor(const jpeg_compressor&) = delete;
  jpeg_compressor& operator=(const jpeg_compressor&) = delete;

  ~jpeg_compressor() { jpeg_destroy_compress(this); }
};

} // namespace detail

/// Encodes row-major pixels of the shape [height, width, 1] (gray) or [height, width, 3] (RGB) as a baseline
/// JPEG with libjpeg's defaults (colour at half the width and height). `quality` is from 1 to 100. Throws
/// std::invalid_argument for another shape, size or quality; jpeg_error where libjpeg fails: an image without
/// pixels, or a side over 65500.
std::vector<std::byte> encode_jpeg(std::span<const std::uint8_t> pixels, const shape& extents,
                                   int quality = 90);

/// Encodes a tensor [height, width, 1] or [height, width, 3].
template <std::size_t... Extents>
std::vector<std::byte> encode_jpeg(const tensor<std::uint8_t, Extents...>& image, int quality = 90) {
  return encode_jpeg({image.data(), image.size()}, image.shape(), quality);
}

} // namespace feedline::inline FEEDLINE_ABI

#ifndef FEEDLINE_COMPILED
#include <feedline/image/jpeg_encoder.ipp>
#endif
