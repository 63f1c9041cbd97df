// SPDX-License-Identifier: MIT
#pragma once
// Formats names of files and samples, and durations, for messages.
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The text on one line: what a terminal would interpret becomes \xNN or \uNNNN. These are control characters, separators of
/// lines, and those that change the direction of the text after them.
std::string readable(std::string_view text);

/// The same in backquotes, shortened if it is very long.
std::string in_backticks(std::string_view name);

/// At most that many bytes of its beginning, which don't end inside a character of UTF-8.
std::string_view beginning_of(std::string_view text, std::size_t most);

/// "2 s", "1.5 ms"
std::string duration_text(std::chrono::nanoseconds time);

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_DETAIL)
#include <utility>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::string readable(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  // The code point of the next character, if it has two or three bytes in UTF-8 and a terminal interprets it; else 0.
  const auto interpreted = [&] {
    const auto at = [&](std::size_t i) {
      return i < text.size() ? static_cast<unsigned>(static_cast<unsigned char>(text[i])) : 0u;
    };
    const auto follows = [&](std::size_t i) { return (at(i) & 0xc0) == 0x80; };
    unsigned code = 0;
    if ((at(0) & 0xe0) == 0xc0 && follows(1)) code = (at(0) & 0x1f) << 6 | (at(1) & 0x3f);
    else if ((at(0) & 0xf0) == 0xe0 && follows(1) && follows(2))
      code = (at(0) & 0x0f) << 12 | (at(1) & 0x3f) << 6 | (at(2) & 0x3f);
    const bool is_control = code >= 0x80 && code < 0xa0;
    const bool is_separator = code == 0x2028 || code == 0x2029;
    const bool is_direction = code == 0x061c || code == 0x200e || code == 0x200f ||
                              (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
    return is_control || is_separator || is_direction ? code : 0;
  };
  std::string shown;
  while (!text.empty()) {
    const auto byte = static_cast<unsigned char>(text[0]);
    const unsigned code = interpreted();
    if (code != 0) {
      shown += "\\u";
      for (int shift = 12; shift >= 0; shift -= 4) shown += digits[(code >> shift) & 15];
    } else if (byte < ' ' || byte == 0x7f) {
      shown.append("\\x").append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
    } else {
      shown += text[0];
    }
    text.remove_prefix(code == 0 ? 1 : code < 0x800 ? 2 : 3);
  }
  return shown;
}

FEEDLINE_INLINE std::string in_backticks(std::string_view name) {
  constexpr std::size_t most = 300;
  std::string text(1, '`');
  text += readable(beginning_of(name, most));
  return text += name.size() > most ? "…`" : "`";
}

FEEDLINE_INLINE std::string_view beginning_of(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most; // a character has at most three bytes after its first one
  while (end > 0 && most - end < 3 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

FEEDLINE_INLINE std::string duration_text(std::chrono::nanoseconds time) {
  const auto [unit, name] = time >= std::chrono::seconds(1)        ? std::pair(1e9, " s")
                            : time >= std::chrono::milliseconds(1) ? std::pair(1e6, " ms")
                                                                   : std::pair(1e3, " us");
  std::string text = std::to_string(static_cast<double>(time.count()) / unit);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text + name;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
