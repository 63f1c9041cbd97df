// SPDX-License-Identifier: MIT
#pragma once
// Formats names of files and samples, and durations, for messages.
#include <chrono>
#include <string>
#include <string_view>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The text on one line: control characters, which a terminal would interpret, become \xNN.
std::string readable(std::string_view text);

/// The same in backquotes, shortened if it is very long.
std::string in_backticks(std::string_view name);

/// "2 s", "1.5 ms"
std::string duration_text(std::chrono::nanoseconds time);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/detail/readable_text.ipp>
#endif
