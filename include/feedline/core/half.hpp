// SPDX-License-Identifier: MIT
#pragma once
// 16-bit floating-point numbers, for networks that use them in batches.
#include <bit>
#include <cstdint>
#include <type_traits>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// IEEE 754 binary16: 11 bits of precision, up to 65504. Converts from float to the nearest value (ties to
/// even; values that are too large become infinite), and back exactly.
struct float16 {
  std::uint16_t bits = 0; ///< sign, exponent and fraction, as stored

  float16() = default;

  /// The nearest value. (F. Giesen, "float->half variants", 2016.)
  explicit constexpr float16(float value) noexcept {
    const auto all = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = all & 0x80000000, magnitude = all ^ sign;
    std::uint32_t half = 0;
    if (magnitude >= 0x47800000) { // from 65536, infinite or NaN
      half = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
    } else if (magnitude < 0x38800000) { // below 2^-14: adding 0.5 rounds and moves the bits to the end
      constexpr float shift = 0.5f;
      half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + shift) -
             std::bit_cast<std::uint32_t>(shift);
    } else {
      const std::uint32_t is_odd = magnitude >> 13 & 1;
      half = (magnitude - (112u << 23) + 0xfff + is_odd) >> 13;
    }
    bits = static_cast<std::uint16_t>(half | sign >> 16);
  }

  /// The same value as a float.
  explicit constexpr operator float() const noexcept {
    const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
    const std::uint32_t exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
    std::uint32_t magnitude = 0;
    if (exponent == 0) magnitude = std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24f);
    else magnitude = (exponent == 31 ? 255u : exponent + 112) << 23 | fraction << 13;
    return std::bit_cast<float>(sign | magnitude);
  }

  friend constexpr bool operator==(float16, float16) = default; ///< compares the bits
};

/// The upper half of a float: 8 bits of precision and float's range. Converts to the nearest value (ties to
/// even), and back exactly.
struct bfloat16 {
  std::uint16_t bits = 0; ///< sign, exponent and fraction, as stored

  bfloat16() = default;

  /// The nearest value.
  explicit constexpr bfloat16(float value) noexcept {
    const auto all = std::bit_cast<std::uint32_t>(value);
    if ((all & 0x7fffffff) > 0x7f800000) bits = static_cast<std::uint16_t>(all >> 16 | 0x40); // NaN
    else bits = static_cast<std::uint16_t>((all + 0x7fff + (all >> 16 & 1)) >> 16);
  }

  /// The same value as a float.
  explicit constexpr operator float() const noexcept {
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
  }

  friend constexpr bool operator==(bfloat16, bfloat16) = default; ///< compares the bits
};

namespace detail {

template <class T>
concept number =
    std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI
