// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/image/color.hpp>

#include <feedline/image/detail/pixel_scale.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void fail_normalized() {
  throw std::invalid_argument(
      "feedline: the image has values below -0.5 or above 1.5, so it was normalized before: colour "
      "adjustments, and normalize(), need values from 0 to 1. Decode it without "
      "resize_options::normalization, adjust its "
      "colours, then call normalize()");
}

FEEDLINE_INLINE void check_normalization(const normalization& n) { static_cast<void>(pixel_scale(n)); }

} // namespace feedline::inline FEEDLINE_ABI::detail
