// SPDX-License-Identifier: MIT
#pragma once
// Reads UTF-8 of any origin, one character after another.
#include <cstddef>
#include <string_view>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Removes the first character from UTF-8, which isn't empty. U+FFFD for a byte that is none.
char32_t next_character(std::string_view& rest);

/// The length of the UTF-8 character at the beginning of the text, which isn't empty; 0 if it isn't one.
std::size_t utf8_length(std::string_view text);

/// U+FFFD, which stands for bytes that aren't UTF-8.
inline constexpr std::string_view replacement_character = "\xef\xbf\xbd";

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/detail/utf8.ipp>
#endif
