// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/indexed_lines.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE lines_by_position indexed_lines_source::indexed(const std::stop_token& stop) const {
  files().expect_files();
  return {files(), options_.max_line_bytes, options_.keep_index, stop};
}

} // namespace feedline::inline FEEDLINE_ABI::detail
