// SPDX-License-Identifier: MIT
#pragma once
// lines: a source of the lines of text files.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include <feedline/core/epoch.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/source.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/read_ahead.hpp>
#include <feedline/source/file_patterns.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of lines.
struct lines_options {
  std::size_t max_line_bytes = 0; ///< the longest line; reading a longer one fails; 0: no limit
};

namespace detail {

class lines_source {
 public:
  static constexpr source_traits traits{.kind = "lines", .splits_files_by_rank = true};

  lines_source(const file_patterns& files, lines_options options)
      : files_(files, traits.kind), options_(options) {
    refuse_negative(options_.max_line_bytes, "feedline::lines: max_line_bytes");
  }

  void start_epoch(const epoch& e) {
    files_.start(e);
    ahead_ = {};
  }

  std::optional<std::string> next();

  std::uint64_t index() const noexcept { return index_; }

  void state(auto& archive) {
    files_.state(archive);
    archive(at_, line_);
  }

  void resumed();

  void seek(std::uint64_t index);

  std::optional<std::size_t> max_item_bytes() const noexcept;

  /// The files and their order in this epoch.
  const file_order& files() const noexcept { return files_; }

  std::uint64_t extent() const noexcept { return files_.extent(); }

  std::uint64_t fingerprint(std::uint64_t extent) const { return files_.fingerprint(extent); }

  std::string origin(std::uint64_t index) const;

 private:
  static constexpr std::size_t closed = ~std::size_t{0};

  file_order files_;
  lines_options options_;
  std::shared_ptr<const mapped_file> file_;
  read_ahead ahead_;
  std::size_t number_ = 0;
  std::size_t at_ = closed; // offset in the file
  std::uint64_t line_ = 0;
  std::uint64_t index_ = 0;
};

} // namespace detail

/// Reads the lines of text files.
///
/// Takes:   file names; each may be a pattern: `corpus/*.txt`, `part-{00..15}.txt`
/// Gives:   each line as a std::string without its end (`\n` or `\r\n`). The last line needs no end; it is left
///          out if it is empty. A line's index is `number of its file << 40 | line in the file`, both from 0
/// Order:   file by file as listed; in infinite mode, or with several epochs, each epoch has a new file order
/// Throws:  when called, std::invalid_argument for an empty list and a file that is listed twice (two patterns may match it;
///          a link with another name is another file), and std::runtime_error for wildcards that
///          match nothing; in the run, std::system_error when it reaches a file that can't be read (the next
///          file follows); std::length_error for a line that is too long
/// Example: `lines("corpus/*.txt") | map(tokenize, workers{4}) | batch(32, padded{})`
inline auto lines(const file_patterns& files, lines_options options = {}) {
  return detail::as_pipeline(detail::lines_source(files, options));
}

} // namespace feedline::inline FEEDLINE_ABI

#ifndef FEEDLINE_COMPILED
#include <feedline/source/lines.ipp>
#endif
