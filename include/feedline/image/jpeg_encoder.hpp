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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_IMAGE)
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE jpeg_vector_destination::jpeg_vector_destination(std::size_t expected_size)
    : jpeg_destination_mgr{}, bytes_(expected_size) {
  init_destination = [](j_compress_ptr codec) { of(codec).offer(0); };
  empty_output_buffer = [](j_compress_ptr codec) -> boolean {
    const std::size_t written = of(codec).bytes_.size();
    if (!of(codec).grow()) libjpeg_errors::of(codec).fail("Insufficient memory");
    of(codec).offer(written);
    return TRUE;
  };
  term_destination = [](j_compress_ptr) {};
}

FEEDLINE_INLINE std::vector<std::byte> jpeg_vector_destination::take() {
  bytes_.resize(bytes_.size() - free_in_buffer);
  return std::move(bytes_);
}

FEEDLINE_INLINE bool jpeg_vector_destination::grow() noexcept {
  try {
    bytes_.resize(2 * bytes_.size());
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

FEEDLINE_INLINE void jpeg_vector_destination::offer(std::size_t written) noexcept {
  next_output_byte = reinterpret_cast<JOCTET*>(bytes_.data() + written);
  free_in_buffer = bytes_.size() - written;
}

} // namespace feedline::inline FEEDLINE_ABI::detail

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE std::vector<std::byte> encode_jpeg(std::span<const std::uint8_t> pixels, const shape& extents,
                                                   int quality) {
  constexpr const char* who = "feedline::encode_jpeg";
  if (extents.rank() != 3 || (extents[2] != 1 && extents[2] != 3) || pixels.size() != extents.count())
    throw std::invalid_argument(std::string(who) + ": the shape is " + to_string(extents) +
                                " and there are " + std::to_string(pixels.size()) +
                                " bytes; an image is [height, width, 1 or 3], one byte per element");
  if (quality < 1 || quality > 100)
    throw std::invalid_argument(std::string(who) + ": the quality is " + std::to_string(quality) +
                                ", but must be from 1 to 100");
  const std::size_t height = extents[0], width = extents[1], channels = extents[2];
  if (height > JPEG_MAX_DIMENSION || width > JPEG_MAX_DIMENSION)
    throw jpeg_error(std::string(who) + ": the image is " + to_string(extents) +
                     ", but JPEG limits each side to " + std::to_string(JPEG_MAX_DIMENSION) + " pixels");

  detail::libjpeg_errors errors;
  detail::jpeg_vector_destination destination(4096 + pixels.size() / 4);
  detail::jpeg_compressor state;
  state.err = &errors;
  errors.run(who, [&] {
    jpeg_create_compress(&state);
    state.dest = &destination;
    state.image_height = static_cast<JDIMENSION>(height);
    state.image_width = static_cast<JDIMENSION>(width);
    state.input_components = static_cast<int>(channels);
    state.in_color_space = channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
    jpeg_set_defaults(&state);
    jpeg_set_quality(&state, quality, TRUE);
    jpeg_start_compress(&state, TRUE);
    while (state.next_scanline < state.image_height) {
      // libjpeg only reads the row, but takes a pointer to non-const.
      auto* row = const_cast<JSAMPLE*>(pixels.data() + state.next_scanline * width * channels);
      jpeg_write_scanlines(&state, &row, 1);
    }
    jpeg_finish_compress(&state);
  });
  return destination.take();
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
