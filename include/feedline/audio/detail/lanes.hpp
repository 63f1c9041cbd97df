// SPDX-License-Identifier: MIT
#pragma once
// Four numbers that are computed at once: the smallest vector register of common machines.
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

inline constexpr std::size_t lane_count = 4;

using float_lanes [[gnu::vector_size(16)]] = float;
using integer_lanes [[gnu::vector_size(16)]] = std::int32_t;

inline float_lanes load_lanes(const float* from) noexcept {
  float_lanes v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

inline void store_lanes(float* to, float_lanes v) noexcept { std::memcpy(to, &v, sizeof v); }

inline float_lanes all_lanes(float x) noexcept { return float_lanes{x, x, x, x}; }

inline float sum_of_lanes(float_lanes v) noexcept { return (v[0] + v[2]) + (v[1] + v[3]); }

/// Exchanges rows and columns.
inline void transpose(float_lanes& a, float_lanes& b, float_lanes& c, float_lanes& d) noexcept {
  const float_lanes ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5),
                    ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const float_lanes cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5),
                    cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  a = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
  b = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
  c = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
  d = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
}

/// The natural logarithm of normal positive numbers, to one unit in the last place (two near 1); infinity and
/// NaN stay unchanged. Unlike the C library's it computes four at once, and is the same on every platform.
///
/// The polynomial is that of logf in S. Moshier's Cephes library: ln(1 + f) for f from sqrt(1/2) - 1 to
/// sqrt(2) - 1.
inline float_lanes log_of_lanes(float_lanes x) noexcept {
  const auto bits = std::bit_cast<integer_lanes>(x);
  const integer_lanes exponent = (bits - 0x3f3504f3) >> 23; // of 2, for a mantissa from sqrt(1/2) to sqrt(2)
  const float_lanes f = std::bit_cast<float_lanes>(bits - (exponent << 23)) - 1.0f;
  const float_lanes e = __builtin_convertvector(exponent, float_lanes);
  float_lanes y = f * 7.0376836292e-2f - 1.1514610310e-1f;
  y = y * f + 1.1676998740e-1f;
  y = y * f - 1.2420140846e-1f;
  y = y * f + 1.4249322787e-1f;
  y = y * f - 1.6668057665e-1f;
  y = y * f + 2.0000714765e-1f;
  y = y * f - 2.4999993993e-1f;
  y = y * f + 3.3333331174e-1f;
  const float_lanes square = f * f;
  y = y * f * square + e * -2.12194440e-4f - 0.5f * square;
  const float_lanes result = f + y + e * 0.693359375f; // ln 2 in two parts
  return x <= std::numeric_limits<float>::max() ? result : x;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
