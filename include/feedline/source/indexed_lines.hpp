// SPDX-License-Identifier: MIT
#pragma once
// indexed_lines: a source of the lines of text files that can be read by position.
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/source/detail/line_index.hpp>
#include <feedline/source/file_patterns.hpp>
#include <feedline/source/lines.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of indexed_lines.
struct indexed_lines_options {
  std::size_t max_line_bytes = 0; ///< the longest line; reading a longer one fails; 0: no limit

  /// Saves where the lines of each file begin in a file next to it, `.FILE.index`, and reuses that as long as the file's
  /// size and time stay the same. A failure to write it is ignored.
  bool keep_index = false;
};

namespace detail {

class indexed_lines_source : public lines_source {
 public:
  indexed_lines_source(const file_patterns& files, const indexed_lines_options& options)
      : lines_source(files, {.max_line_bytes = options.max_line_bytes}), options_(options) {}

  /// Reads all files, except those with a kept index.
  lines_by_position indexed(const std::stop_token& stop = {}) const {
    files().expect_files();
    return {files(), options_.max_line_bytes, options_.keep_index, stop};
  }

 private:
  indexed_lines_options options_;
};

} // namespace detail

/// Reads the lines of text files as lines() does, with the same indices and failures, and also by position: global_shuffle()
/// puts the lines of all files into one random order.
///
/// For this it first reads all files once, to find their lines, which takes about as long as counting them. It keeps the
/// offset of one line in each 1 to 2 KB of text.
/// Takes:   file names; each may be a pattern, as for lines. The files aren't compressed
/// Gives:   each line as a std::string. Its index is `number of its file << 40 | line in the file`
/// Order:   that of lines
/// Throws:  as lines does; also std::runtime_error for the lines of a file that has changed since they were found
/// Limits:  those of lines: don't shorten a file in place during a run
/// Example: `indexed_lines("corpus/*.jsonl", {.keep_index = true}) | global_shuffle() | map(parse, workers{4})`
inline auto indexed_lines(const file_patterns& files, const indexed_lines_options& options = {}) {
  return detail::as_pipeline(detail::indexed_lines_source(files, options));
}

} // namespace feedline::inline FEEDLINE_ABI
