// SPDX-License-Identifier: MIT
#pragma once
// Formats names of files and samples, and durations, for messages.
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

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

/// "2 s", "1.5 ms"
inline std::string duration_text(std::chrono::nanoseconds time) {
  const auto [unit, name] = time >= std::chrono::seconds(1)        ? std::pair(1e9, " s")
                            : time >= std::chrono::milliseconds(1) ? std::pair(1e6, " ms")
                                                                   : std::pair(1e3, " us");
  std::string text = std::to_string(static_cast<double>(time.count()) / unit);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text + name;
}

} // namespace feedline::inline v0::detail
