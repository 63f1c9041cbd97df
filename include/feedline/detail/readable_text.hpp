// SPDX-License-Identifier: MIT
#pragma once
// Formats the names of files and samples for messages.
#include <cstddef>
#include <string>
#include <string_view>

namespace feedline::inline v0::detail {

/// The text on one line: control characters, which a terminal would interpret, become \xNN.
inline std::string readable(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte != 0x7f) shown += c;
    else shown.append("\\x").append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
  }
  return shown;
}

/// The same in backquotes, shortened if it is very long.
inline std::string in_backticks(std::string_view name) {
  constexpr std::size_t most = 300;
  std::string text(1, '`');
  text += readable(name.substr(0, most));
  return text += name.size() > most ? "…`" : "`";
}

} // namespace feedline::inline v0::detail
