// SPDX-License-Identifier: MIT
#pragma once
// Access by position to the lines of text files, with an index of where they begin.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/detail/mapped_file.hpp>
#include <feedline/source/detail/file_order.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// What the beginning of a text file shows.
struct text_kind {
  std::string_view compression{}; ///< "gzip data"; empty if it isn't compressed
  std::size_t begin = 0;          ///< the offset of the first line: a byte order mark isn't part of it
};

/// Throws std::runtime_error for text in UTF-16.
text_kind kind_of_text(const mapped_file& file);

[[noreturn]] void throw_compressed(const mapped_file& file, std::string_view compression);

/// Makes a line from its text without the line feed. Throws std::length_error if it is longer than `max_line_bytes`, which may
/// be 0. `dropped`: bytes before the text that weren't kept.
std::string finished_line(std::string_view text, bool has_end, std::size_t dropped,
                          std::size_t max_line_bytes, const file_order& files, std::uint64_t index);

/// "a.txt: line 3"
std::string origin_of_line(const file_order& files, std::uint64_t index);

/// Where the lines of a text file begin.
struct line_index {
  std::uint64_t bytes = 0;             ///< of the file
  std::int64_t modified_ns = 0;        ///< when the file was modified
  std::uint64_t lines = 0;             ///< how many there are
  std::uint64_t step = 1;              ///< the index has every step-th line
  std::vector<std::uint64_t> begins{}; ///< the offsets of lines 0, step, 2 * step, …
  std::string problem{};               ///< why the file has no lines; empty if it has

  bool is_of(const mapped_file& file) const noexcept {
    return bytes == file.bytes().size() && modified_ns == file.modified_ns();
  }
};

/// Finds the lines of a file. A file without lines by position has one line, which is an error. Throws
/// std::runtime_error after a stop.
line_index scan_lines(const std::string& path, const std::stop_token& stop);

inline constexpr std::string_view line_index_name = "fllines";         // the first bytes; then the version
inline constexpr std::uint64_t line_index_magic = 0x3173656e'696c6c66; // "fllines1"

/// The words of an index file; `fingerprint`: that of the text.
std::vector<std::uint64_t> to_words(const line_index& index, std::uint64_t fingerprint);

/// Returns nothing for words of another index, or of one that can't be right.
std::optional<line_index> line_index_from(std::span<const std::uint64_t> words, std::uint64_t fingerprint);

/// The name of a text's index file. It is hidden, so that patterns for texts don't match it.
std::string path_of_line_index(const std::string& path);

/// Returns the index of a text. With `keep`, reads it from its file if that matches, otherwise makes it and writes that
/// file.
line_index index_of_lines(const std::string& path, bool keep, const std::stop_token& stop);

/// The text of a line, without its line feed.
struct found_line {
  std::string_view text;
  bool has_end;
};

/// Finds a line of a file. Throws std::runtime_error if the index doesn't fit the file.
found_line find_line(const mapped_file& file, const line_index& index, std::uint64_t line);

/// Access to the lines of files by position, counted over all files. A file is mapped when it is first needed.
class lines_by_position : public places_in_files {
 public:
  lines_by_position(const file_order& files, std::size_t max_line_bytes, bool keep_index,
                    const std::stop_token& stop);

  std::string at(std::uint64_t position) const;

  /// Has the system start to read a line that isn't in memory, and those before it back to the one whose offset is known.
  bool will_need(std::uint64_t position) const noexcept;

 private:
  file_order files_;
  std::size_t max_line_bytes_;
  std::shared_ptr<const std::vector<line_index>> indices_;
  std::shared_ptr<lazy_maps> maps_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/source/detail/line_index.ipp>
#endif
