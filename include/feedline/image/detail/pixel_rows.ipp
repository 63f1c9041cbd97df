// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/image/detail/pixel_rows.hpp>

#include <cstdlib>
#include <cstring>

namespace feedline::inline FEEDLINE_ABI::detail {

// The inner loop runs along the oriented image's rows, so that it writes neighbouring bytes. It uses copies of
// the view's members, because the compiler must assume that writing bytes changes the members.
template <std::size_t Channels>
void place_pixels(const std::uint8_t* rows, std::size_t pitch, std::size_t first, std::size_t count,
                  const image_view<std::uint8_t>& to) noexcept {
  std::uint8_t* const data = &to(first, 0, 0);
  const std::ptrdiff_t right = to.column_step, down = to.row_step;
  const auto copy = [=](std::size_t x, std::size_t y) {
    std::memcpy(data + static_cast<std::ptrdiff_t>(x) * right + static_cast<std::ptrdiff_t>(y) * down,
                rows + y * pitch + x * Channels, Channels);
  };
  const std::size_t width = to.width;
  if (std::abs(right) > std::abs(down))
    for (std::size_t x = 0; x < width; ++x)
      for (std::size_t y = 0; y < count; ++y) copy(x, y);
  else
    for (std::size_t y = 0; y < count; ++y)
      for (std::size_t x = 0; x < width; ++x) copy(x, y);
}

FEEDLINE_INLINE void place_rows(const std::uint8_t* rows, std::size_t pitch, std::size_t first,
                                std::size_t count, const image_view<std::uint8_t>& to) noexcept {
  if (to.channels == 3) place_pixels<3>(rows, pitch, first, count, to);
  else if (to.channels == 4) place_pixels<4>(rows, pitch, first, count, to);
  else place_pixels<1>(rows, pitch, first, count, to);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
