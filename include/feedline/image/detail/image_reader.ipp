// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/image/detail/image_reader.hpp>

#include <feedline/image/image_error.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void fail_image(const std::string& what) {
  throw image_error(std::string(image_decoder_name) + ": " + what);
}

FEEDLINE_INLINE void check_image_pixels(const image_header& header, const image_options& options) {
  if (std::uint64_t{header.width} * header.height > options.max_pixels)
    fail_image(std::to_string(header.width) + " x " + std::to_string(header.height) +
               " pixels are more than image_options::max_pixels, " + std::to_string(options.max_pixels));
}

FEEDLINE_INLINE std::string too_many_bytes(const char* options_name, const image_header& header,
                                           std::uint64_t bytes, std::size_t file_bytes,
                                           const image_options& options) {
  constexpr std::uint64_t always_allowed = 64; // for each byte of the file
  if (bytes <= options.max_bytes || bytes / always_allowed <= file_bytes) return {};
  return "decoding " + std::to_string(header.width) + " x " + std::to_string(header.height) +
         " pixels from a file of " + std::to_string(file_bytes) + " bytes takes up to " +
         std::to_string(bytes) + " bytes of memory, more than " + options_name + "::max_bytes, " +
         std::to_string(options.max_bytes) + "; raise it to decode the image";
}

} // namespace feedline::inline FEEDLINE_ABI::detail
