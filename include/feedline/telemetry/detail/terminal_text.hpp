// SPDX-License-Identifier: MIT
#pragma once
// Text of any origin on a terminal.
#include <cstddef>
#include <string>
#include <string_view>

#include <feedline/detail/utf8.hpp>
#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Columns of a character on a terminal; 0 for one that combines with another, moves the cursor, or changes the direction.
inline std::size_t text_columns(char32_t c) {
  const auto in = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  if (c < 0x20 || in(0x7f, 0x9f) || c == 0xad || in(0x300, 0x36f) || in(0x483, 0x489) || in(0x591, 0x5bd) ||
      in(0x610, 0x61c) || in(0x64b, 0x65f) || in(0x200b, 0x200f) || in(0x2028, 0x202e) ||
      in(0x2060, 0x206f) || in(0x20d0, 0x20ff) || in(0xd800, 0xf8ff) || in(0xfe00, 0xfe0f) || c == 0xfeff ||
      in(0xfff0, 0xfffb) || in(0xe0000, 0x10ffff))
    return 0;
  return in(0x1100, 0x115f) || in(0x231a, 0x231b) || in(0x23e9, 0x23fa) || in(0x2600, 0x27bf) ||
                 in(0x2b00, 0x2bff) || in(0x2e80, 0xa4cf) || in(0xa960, 0xa97f) || in(0xac00, 0xd7ff) ||
                 in(0xf900, 0xfaff) || in(0xfe10, 0xfe6f) || in(0xff00, 0xffe6) || in(0x16fe0, 0x1b2ff) ||
                 in(0x1f000, 0x1faff) || in(0x20000, 0x3ffff)
             ? 2
             : 1;
}

/// Text on one line: what a terminal would interpret, or can't show, becomes U+FFFD or `?`.
inline std::string visible_text(std::string_view text, bool utf8) {
  std::string shown;
  while (!text.empty()) {
    const std::string_view before = text;
    const char32_t c = next_character(text);
    const std::string_view character = before.substr(0, before.size() - text.size());
    if (c == 0xfffd || text_columns(c) == 0 || (c >= 0x80 && !utf8))
      shown += utf8 ? replacement_character : "?";
    else shown += character;
  }
  return shown;
}

/// How many columns UTF-8 takes, without escape sequences for colours. East Asian wide characters take two.
inline std::size_t text_columns(std::string_view text) {
  std::size_t sum = 0;
  while (!text.empty()) sum += text_columns(next_character(text));
  return sum;
}

/// The beginning of a text, of at most this many columns.
inline std::string_view first_columns(std::string_view text, std::size_t width) {
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view after = rest;
    const std::size_t used = text_columns(next_character(after));
    if (used > width) break;
    width -= used;
    rest = after;
  }
  return text.substr(0, text.size() - rest.size());
}

} // namespace feedline::inline FEEDLINE_ABI::detail
