// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/image/image_view.hpp>

#include <stdexcept>
#include <string>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void check_image_size(std::size_t elements, const shape& wanted) {
  if (elements != wanted.count())
    throw std::invalid_argument("feedline: an image of shape " + to_string(wanted) + " doesn't have " +
                                std::to_string(elements) + " elements");
}

FEEDLINE_INLINE void check_decode_into(const char* of, std::size_t bytes, const shape& wanted) {
  if (bytes != wanted.count())
    throw std::invalid_argument(std::string(of) + "::decode_into: the image is " + to_string(wanted) +
                                ", but `pixels` has " + std::to_string(bytes) + " bytes");
}

FEEDLINE_INLINE void check_image_shape(const shape& s) {
  if (s.rank() != 3)
    throw std::invalid_argument("feedline: an image has three dimensions, but the tensor's shape is " +
                                to_string(s));
}

} // namespace feedline::inline FEEDLINE_ABI::detail
