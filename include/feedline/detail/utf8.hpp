// SPDX-License-Identifier: MIT
#pragma once
// Reads UTF-8 of any origin, one character after another.
#include <array>
#include <cstddef>
#include <string_view>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// U+FFFD, which stands for bytes that aren't UTF-8.
inline constexpr std::string_view replacement_character = "\xef\xbf\xbd";

/// Removes the first character from UTF-8, which isn't empty. U+FFFD for a byte that is none.
inline char32_t next_character(std::string_view& rest) {
  constexpr char32_t invalid = 0xfffd;
  const auto first = static_cast<unsigned char>(rest.front());
  rest.remove_prefix(1);
  if (first < 0x80) return first;
  const std::size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
  if (first < 0xc2 || first > 0xf4 || rest.size() < more) return invalid;
  char32_t value = first & (0x3fU >> more);
  for (std::size_t i = 0; i < more; ++i) {
    const auto next = static_cast<unsigned char>(rest[i]);
    if ((next & 0xc0) != 0x80) return invalid;
    value = value << 6 | (next & 0x3f);
  }
  constexpr std::array<char32_t, 4> least{0, 0x80, 0x800, 0x10000};
  if (value < least[more] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return invalid;
  rest.remove_prefix(more);
  return value;
}

/// The same; returns the bytes of the character.
inline std::string_view take_character(std::string_view& rest) {
  const std::string_view text = rest;
  if (next_character(rest) == 0xfffd) return replacement_character;
  return text.substr(0, text.size() - rest.size());
}

} // namespace feedline::inline FEEDLINE_ABI::detail
