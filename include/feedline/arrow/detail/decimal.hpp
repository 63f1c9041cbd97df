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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_ARROW)
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <limits>
#include <system_error>

#include <feedline/arrow/detail/flat_table.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The digits of a whole number, with a minus sign if it is negative.
FEEDLINE_INLINE std::string whole_number_text(std::span<const std::byte> number) {
  std::array<std::uint32_t, 8> words{}; // the lowest first
  const std::size_t count = number.size() / 4;
  for (std::size_t i = 0; i < count; ++i) words[i] = load<std::uint32_t>(number.data() + 4 * i);
  const bool is_negative = words[count - 1] >> 31 != 0;
  if (is_negative) {
    bool carry = true;
    for (std::size_t i = 0; i < count; ++i) {
      words[i] = ~words[i] + carry;
      carry = carry && words[i] == 0;
    }
  }
  std::string text; // from the last digit to the first
  for (std::size_t left = count; left > 0;) {
    constexpr std::uint32_t billion = 1'000'000'000;
    std::uint64_t rest = 0;
    for (std::size_t i = left; i-- > 0;) {
      rest = rest << 32 | words[i];
      words[i] = static_cast<std::uint32_t>(rest / billion);
      rest %= billion;
    }
    while (left > 0 && words[left - 1] == 0) --left;
    for (int digit = 0; digit < 9 && (left > 0 || rest > 0); ++digit, rest /= 10)
      text += static_cast<char>('0' + rest % 10);
  }
  if (text.empty()) text = "0";
  if (is_negative) text += '-';
  std::reverse(text.begin(), text.end());
  return text;
}

FEEDLINE_INLINE std::string decimal_text(std::span<const std::byte> number, int scale) {
  std::string text = whole_number_text(number);
  if (scale <= 0) {
    if (text != "0") text.append(static_cast<std::size_t>(-scale), '0');
    return text;
  }
  const auto fraction = static_cast<std::size_t>(scale);
  const std::size_t sign = text.front() == '-';
  if (text.size() - sign <= fraction) text.insert(sign, fraction + 1 - (text.size() - sign), '0');
  text.insert(text.size() - fraction, 1, '.');
  return text;
}

FEEDLINE_INLINE double decimal_as_double(std::span<const std::byte> number, int scale) {
  // If both are exact as doubles, so is the rounding of their quotient.
  constexpr double powers[]{1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                            1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  const std::int64_t low =
      number.size() == 4 ? load<std::int32_t>(number.data()) : load<std::int64_t>(number.data());
  const auto sign = static_cast<std::byte>(low < 0 ? 0xff : 0);
  const auto above = number.subspan(std::min<std::size_t>(number.size(), 8));
  const bool is_low = std::all_of(above.begin(), above.end(), [&](std::byte b) { return b == sign; });
  constexpr std::int64_t exact = std::int64_t{1} << 53;
  if (is_low && low <= exact && low >= -exact && scale >= 0 && scale < static_cast<int>(std::size(powers)))
    return static_cast<double>(low) / powers[scale];
  const std::string text = whole_number_text(number) + 'e' + std::to_string(-scale);
  double value = 0;
  const auto problem = std::from_chars(text.data(), text.data() + text.size(), value).ec;
  if (problem != std::errc::result_out_of_range) return value;
  if (scale > 0) return 0; // too small
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return text.front() == '-' ? -infinity : infinity;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
