// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/detail/readable_text.hpp>

#include <cstddef>
#include <utility>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::string readable(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte != 0x7f) shown += c;
    else shown.append("\\x").append(1, digits[byte >> 4]).append(1, digits[byte & 15]);
  }
  return shown;
}

FEEDLINE_INLINE std::string in_backticks(std::string_view name) {
  constexpr std::size_t most = 300;
  std::string text(1, '`');
  text += readable(name.substr(0, most));
  return text += name.size() > most ? "…`" : "`";
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
