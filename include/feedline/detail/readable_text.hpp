// SPDX-License-Identifier: MIT
#pragma once
// Formats names of files and samples, and durations, for messages.
#include <chrono>
#include <string>
#include <string_view>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The text on one line: what a terminal would interpret becomes \xNN or \uNNNN. These are control characters, separators of
/// lines, and those that change the direction of the text after them.
std::string readable(std::string_view text);

/// The same in backquotes, shortened if it is very long.
std::string in_backticks(std::string_view name);

/// "2 s", "1.5 ms"
std::string duration_text(std::chrono::nanoseconds time);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/detail/readable_text.ipp>
#endif
