// SPDX-License-Identifier: MIT
#pragma once
// Converts sums in fixed point to normalized pixels.
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <feedline/core/half.hpp>
#include <feedline/image/resize_options.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Refuses elements that an image can't have.
template <class T>
consteval void check_element() {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, float16> || std::is_same_v<T, bfloat16> ||
                    std::is_same_v<T, std::uint8_t>,
                "feedline: an image's elements must be float, float16, bfloat16 or std::uint8_t");
}

/// Applies a normalization. It subtracts integers and multiplies once, so that every compiler produces the
/// same result.
class pixel_scale {
 public:
  static constexpr int bits = 20; ///< fractional bits of the sums

  /// Throws std::invalid_argument for a mean outside [-1, 1], or a std that is 0 or not finite.
  explicit pixel_scale(const normalization& n);

  std::int32_t offset(std::size_t channel) const noexcept { return offset_[channel]; }

  float factor(std::size_t channel) const noexcept { return factor_[channel]; }

  template <class T>
  T scaled(std::int32_t sum, std::size_t channel) const noexcept {
    if constexpr (std::is_same_v<T, std::uint8_t>) {
      const std::int32_t rounded = (sum + (1 << (bits - 1))) >> bits;
      return static_cast<T>(rounded < 0 ? 0 : rounded > 255 ? 255 : rounded);
    } else {
      return T(static_cast<float>(sum - offset_[channel]) * factor_[channel]);
    }
  }

 private:
  std::array<std::int32_t, 4> offset_; // of red, green and blue, and of alpha, which isn't normalized
  std::array<float, 4> factor_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_IMAGE)
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
#endif
