// SPDX-License-Identifier: MIT
#pragma once
// lines: a source of the lines of text files.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/read_ahead.hpp>
#include <feedline/source/file_patterns.hpp>

namespace feedline::inline v0 {

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

  std::optional<std::string> next() {
    for (;;) {
      if (!file_) {
        const auto number = files_.next();
        if (!number) return std::nullopt;
        number_ = *number;
        file_ = ahead_.open(files_, number_);
        at_ = 0;
        line_ = 0;
      }
      const char* const begin = reinterpret_cast<const char*>(file_->bytes().data()) + at_;
      const std::size_t left = file_->bytes().size() - at_;
      if (left == 0) {
        file_.reset();
        at_ = closed;
        continue;
      }
      ahead_.announce(files_, file_, at_);
      const void* const end = std::memchr(begin, '\n', left);
      std::size_t length = end ? static_cast<std::size_t>(static_cast<const char*>(end) - begin) : left;
      at_ += end ? length + 1 : length;
      index_ = file_order::index_of(number_, line_++);
      if (end && length > 0 && begin[length - 1] == '\r') --length;
      if (options_.max_line_bytes > 0 && length > options_.max_line_bytes)
        throw std::length_error(origin(index_) + " has " + std::to_string(length) +
                                " bytes, more than lines_options::max_line_bytes, " +
                                std::to_string(options_.max_line_bytes));
      return std::string(begin, length);
    }
  }

  std::uint64_t index() const noexcept { return index_; }

  void state(auto& archive) {
    files_.state(archive);
    archive(at_, line_);
  }

  void resumed() {
    if (at_ == closed) return;
    number_ = files_.last();
    file_ = files_.map_last(at_);
  }

  void seek(std::uint64_t index) {
    if (file_ && number_ == file_order::file_of(index) && line_ <= file_order::place_of(index)) return;
    files_.go_to(file_order::file_of(index));
    file_.reset();
    at_ = closed;
  }

  std::optional<std::size_t> max_item_bytes() const noexcept {
    if (options_.max_line_bytes == 0) return std::nullopt;
    return sizeof(std::string) + options_.max_line_bytes + 1;
  }

  /// The files and their order in this epoch.
  const file_order& files() const noexcept { return files_; }

  std::uint64_t extent() const noexcept { return files_.extent(); }

  std::uint64_t fingerprint(std::uint64_t extent) const { return files_.fingerprint(extent); }

  std::string origin(std::uint64_t index) const {
    return readable(files_.name_of(index)) + ": line " + std::to_string(file_order::place_of(index) + 1);
  }

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

} // namespace feedline::inline v0
