// SPDX-License-Identifier: MIT
#pragma once
// Reads UTF-8 of any origin, one character after another.
#include <string_view>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// U+FFFD, which stands for bytes that aren't UTF-8.
inline constexpr std::string_view replacement_character = "\xef\xbf\xbd";

/// Removes the first character from UTF-8, which isn't empty. U+FFFD for a byte that is none.
char32_t next_character(std::string_view& rest);

/// The same; returns the bytes of the character.
std::string_view take_character(std::string_view& rest);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/detail/utf8.ipp>
#endif
