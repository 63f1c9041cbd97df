// SPDX-License-Identifier: MIT
#pragma once
// Text of any origin on a terminal.
#include <cstddef>
#include <string>
#include <string_view>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Text on one line: what a terminal would interpret, or can't show, becomes U+FFFD or `?`.
std::string visible_text(std::string_view text, bool utf8);

/// How many columns UTF-8 takes, without escape sequences for colours. East Asian wide characters take two.
std::size_t text_columns(std::string_view text);

/// The beginning of a text, of at most this many columns.
std::string_view first_columns(std::string_view text, std::size_t width);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/telemetry/detail/terminal_text.ipp>
#endif
