// SPDX-License-Identifier: MIT
#pragma once
// lines: the lines of text files.
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

namespace feedline::inline v0 {

struct lines_options {
  std::size_t longest = 0; ///< bytes of a line; one that has more is refused in its place; 0: any length
};

namespace detail {

class lines_source {
 public:
  static constexpr source_traits traits{.kind = "lines", .shares_files = true};

  lines_source(const std::vector<std::string>& patterns, lines_options options)
      : files_(patterns, traits.kind), options_(options) {
    refuse_negative(options_.longest, "feedline::lines: the longest line");
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
      if (options_.longest > 0 && length > options_.longest)
        throw std::length_error(origin(index_) + " has " + std::to_string(length) +
                                " bytes, more than lines_options::longest, " +
                                std::to_string(options_.longest));
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

  void go_near(std::uint64_t index) {
    if (file_ && number_ == file_order::file_of(index) && line_ <= file_order::place_of(index)) return;
    files_.go_to(file_order::file_of(index));
    file_.reset();
    at_ = closed;
  }

  std::optional<std::size_t> largest_item() const noexcept {
    if (options_.longest == 0) return std::nullopt;
    return sizeof(std::string) + options_.longest + 1;
  }

  /// In which order its files come.
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
  std::size_t at_ = closed; // in the file
  std::uint64_t line_ = 0;
  std::uint64_t index_ = 0;
};

} // namespace detail

/// A source of the lines of text files.
///
/// Takes:   names of files, each of which may be a pattern: `corpus/*.txt`, `part-{00..15}.txt`
/// Gives:   each line as a std::string without its end (\n or \r\n); the last one with or without an end, if
///          it isn't empty. The index of a line is `number of its file << 40 | line in the file`, both from 0
/// Order:   file by file as listed; in infinite mode, and with several epochs, files in a new order in each
///          epoch
/// Throws:  at once std::invalid_argument for an empty list and std::runtime_error for wildcards that match
///          nothing; std::system_error for a file that can't be read, in its place (then comes the next file);
///          std::length_error for a line that is too long
/// Example: `lines({"corpus/*.txt"}) | map(tokenize, workers{4}) | batch(32, padded{})`
inline auto lines(const std::vector<std::string>& patterns, lines_options options = {}) {
  return detail::as_pipeline(detail::lines_source(patterns, options));
}

} // namespace feedline::inline v0
