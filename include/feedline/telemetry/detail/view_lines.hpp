// SPDX-License-Identifier: MIT
#pragma once
// The metrics of a run as lines of text, for a terminal or a log.
#include <cstddef>
#include <string>
#include <vector>

#include <feedline/core/metrics.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// What a terminal can show.
struct view_style {
  std::size_t width = 80;  ///< columns
  std::size_t height = 24; ///< lines
  bool utf8 = true;        ///< otherwise ASCII
  bool color = true;       ///< escape sequences for colours
};

/// At most `height` lines of at most `width` columns. If there is little room, the least important lines and columns are left
/// out; the first line is always there.
std::vector<std::string> view_lines(const metrics& m, const view_style& style, bool has_ended);

/// One line of any length.
std::string view_summary(const metrics& m, bool utf8, bool has_ended);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/telemetry/detail/view_lines.ipp>
#endif
