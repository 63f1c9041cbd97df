// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/image/jpeg_encoder.hpp>

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
