// SPDX-License-Identifier: MIT
#pragma once
// Decimals: whole numbers of 32 to 256 bits, and the number of digits after the point.
#include <cstddef>
#include <span>
#include <string>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The exact value: "-12.50" for -1250 and a scale of 2, "1200" for 12 and a scale of -2. `number` has at most
/// 32 bytes, a multiple of 4.
std::string decimal_text(std::span<const std::byte> number, int scale);

/// The double nearest to the value; infinite if it is too large.
double decimal_as_double(std::span<const std::byte> number, int scale);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/arrow/detail/decimal.ipp>
#endif
