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

#ifndef FEEDLINE_COMPILED
#include <feedline/detail/readable_text.ipp>
#endif
