// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/image/detail/pixel_scale.hpp>

#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE pixel_scale::pixel_scale(const normalization& n) {
  for (std::size_t c = 0; c < 4; ++c) {
    const double mean = c < 3 ? n.mean[c] : 0, deviation = c < 3 ? n.std[c] : 1;
    if (!(mean >= -1 && mean <= 1) || !(std::abs(deviation) > 1e-30 && std::abs(deviation) < 1e30))
      throw std::invalid_argument("feedline::normalization: mean " + std::to_string(mean) + ", std " +
                                  std::to_string(deviation) +
                                  "; the mean of v / 255 must be from -1 to 1, and std must not be 0");
    offset_[c] = static_cast<std::int32_t>(std::round(mean * 255 * (1 << bits)));
    factor_[c] = static_cast<float>(1 / (255.0 * (1 << bits) * deviation));
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
