// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/snapshot/value_hash.hpp>

#include <bit>
#include <cmath>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::uint64_t hash_of_number(long double value) noexcept {
  if (std::isnan(value)) return key(1);
  if (std::isinf(value)) return key(value < 0 ? 2 : 3);
  int exponent = 0;
  const long double fraction = std::frexp(value, &exponent);
  const auto high = static_cast<double>(fraction);
  const auto low = static_cast<double>(fraction - static_cast<long double>(high));
  return key(std::bit_cast<std::uint64_t>(high), std::bit_cast<std::uint64_t>(low),
             static_cast<std::uint64_t>(exponent));
}

} // namespace feedline::inline FEEDLINE_ABI::detail
