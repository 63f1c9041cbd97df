// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/image/detail/pixel_rows.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE pixel_layout::pixel_layout(exif_orientation orientation, std::size_t width,
                                           std::size_t height, std::size_t channels) noexcept
    : width_(width),
      channels_(channels),
      sideways_(swaps_sides(orientation)),
      steps_(
          steps_for(orientation, static_cast<std::ptrdiff_t>(width), static_cast<std::ptrdiff_t>(height))) {
  const auto bytes = static_cast<std::ptrdiff_t>(channels);
  steps_ = {bytes * steps_.origin, bytes * steps_.x, bytes * steps_.y};
}

} // namespace feedline::inline FEEDLINE_ABI::detail
