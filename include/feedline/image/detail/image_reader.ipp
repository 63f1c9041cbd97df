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

} // namespace feedline::inline FEEDLINE_ABI::detail
