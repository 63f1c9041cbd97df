// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/stage/windows.hpp>

#include <stdexcept>
#include <string>

#include <feedline/detail/given_size.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void check_windows(std::size_t length, windows_options& o) {
  if (length == 0) throw std::invalid_argument("feedline::windows: a window needs at least one token");
  refuse_negative(length, "feedline::windows: the length");
  refuse_negative(o.stride, "feedline::windows: the stride");
  if (o.stride == 0) o.stride = length;
}

FEEDLINE_INLINE void throw_wrong_separator(std::int64_t separator, bool has_documents) {
  throw std::invalid_argument(
      has_documents ? "feedline::windows: the separator " + std::to_string(separator) +
                          " is not a value of the tokens' type"
                    : "feedline::windows: single tokens have no separator: add it to the stream, or make "
                      "each item a document");
}

} // namespace feedline::inline FEEDLINE_ABI::detail
