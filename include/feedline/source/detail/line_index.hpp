// SPDX-License-Identifier: MIT
#pragma once
// Access by position to the lines of text files, with an index of where they begin.
#include <feedline/core/contract.hpp>
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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_SOURCE)
#include <cstring>

#include <feedline/detail/file_kind.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/detail/run_on_threads.hpp>
#include <feedline/source/detail/index_file.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE text_kind kind_of_text(const mapped_file& file) {
  const auto bytes = file.bytes().first(std::min<std::size_t>(512, file.bytes().size()));
  const std::string_view begin(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (begin.starts_with("\xff\xfe") || begin.starts_with("\xfe\xff"))
    throw std::runtime_error(readable(file.path()) +
                             " is UTF-16 text, which has no lines of bytes: convert it to UTF-8 first");
  const file_kind kind = kind_of_file(begin);
  if (kind.is_pointer) throw std::runtime_error(readable(file.path()) + " is " + std::string(kind.name));
  if (kind.is_compressed) return {.compression = kind.name};
  return {.begin = begin.starts_with("\xef\xbb\xbf") ? 3u : 0u}; // a byte order mark of UTF-8
}

FEEDLINE_INLINE void throw_compressed(const mapped_file& file, std::string_view compression) {
  throw std::runtime_error(readable(file.path()) + " is " + std::string(compression) +
                           how_to_decompress(compression, "with lines and lines_options"));
}

FEEDLINE_INLINE std::string finished_line(std::string_view text, bool has_end, std::size_t dropped,
                                          std::size_t max_line_bytes, const file_order& files,
                                          std::uint64_t index) {
  if (has_end && text.ends_with('\r')) text.remove_suffix(1);
  if (max_line_bytes > 0 && dropped + text.size() > max_line_bytes)
    throw std::length_error(origin_of_line(files, index) + " has " + std::to_string(dropped + text.size()) +
                            " bytes, more than lines_options::max_line_bytes, " +
                            std::to_string(max_line_bytes));
  return std::string(text);
}

FEEDLINE_INLINE std::string origin_of_line(const file_order& files, std::uint64_t index) {
  return readable(files.name_of(index)) + ": line " + std::to_string(file_order::place_of(index) + 1);
}

FEEDLINE_INLINE line_index scan_lines(const std::string& path, const std::stop_token& stop) {
  try {
    const auto file = std::make_shared<const mapped_file>(path);
    const auto [compression, first] = kind_of_text(*file);
    if (!compression.empty()) throw_compressed(*file, compression);
    line_index index{.bytes = file->bytes().size(), .modified_ns = file->modified_ns()};
    constexpr std::uint64_t bytes_per_begin = 1024, ahead = std::uint64_t{8} << 20;
    announced_file announced{file};
    const char* const text = reinterpret_cast<const char*>(file->bytes().data());
    for (std::uint64_t at = first; at < index.bytes; ++index.lines) {
      if (index.lines % 1024 == 0) {
        throw_if_stopped(stop);
        announced.reach(at + ahead);
      }
      if (index.lines % index.step == 0) {
        index.begins.push_back(at);
        if (index.begins.size() > 64 + at / bytes_per_begin) { // keeps every second one
          for (std::size_t i = 0; 2 * i < index.begins.size(); ++i) index.begins[i] = index.begins[2 * i];
          index.begins.resize((index.begins.size() + 1) / 2);
          index.step *= 2;
        }
      }
      const void* const end = std::memchr(text + at, '\n', index.bytes - at);
      at = end ? static_cast<std::uint64_t>(static_cast<const char*>(end) - text) + 1 : index.bytes;
    }
    return index;
  } catch (const std::runtime_error& error) {
    if (stop.stop_requested()) throw;
    return {.lines = 1, .begins = {0}, .problem = error.what()};
  }
}

FEEDLINE_INLINE std::vector<std::uint64_t> to_words(const line_index& index, std::uint64_t fingerprint) {
  std::vector<std::uint64_t> words{
      line_index_magic, index.bytes, static_cast<std::uint64_t>(index.modified_ns),
      fingerprint,      index.lines, index.step};
  words.insert(words.end(), index.begins.begin(), index.begins.end());
  return words;
}

FEEDLINE_INLINE std::optional<line_index> line_index_from(std::span<const std::uint64_t> words,
                                                          std::uint64_t fingerprint) {
  constexpr std::size_t head = 6;
  if (words.size() < head || words[0] != line_index_magic || words[3] != fingerprint) return {};
  const auto begins = words.subspan(head);
  line_index index{.bytes = words[1],
                   .modified_ns = static_cast<std::int64_t>(words[2]),
                   .lines = words[4],
                   .step = words[5],
                   .begins = {begins.begin(), begins.end()}};
  if (index.step == 0 || index.lines > index.bytes ||
      index.begins.size() != index.lines / index.step + (index.lines % index.step != 0))
    return {};
  const auto falls = [](std::uint64_t a, std::uint64_t b) { return a >= b; };
  if (std::adjacent_find(begins.begin(), begins.end(), falls) != begins.end()) return {};
  if (!begins.empty() && begins.back() >= index.bytes) return {};
  return index;
}

FEEDLINE_INLINE std::string path_of_line_index(const std::string& path) {
  const std::size_t name = path.size() - last_name(path).size();
  return path.substr(0, name) + "." + path.substr(name) + ".index";
}

FEEDLINE_INLINE line_index index_of_lines(const std::string& path, bool keep, const std::stop_token& stop) {
  if (!keep) return scan_lines(path, stop);
  const std::string kept_path = path_of_line_index(path);
  const std::uint64_t fingerprint = fingerprint_of_file(path);
  try {
    auto kept = line_index_from(read_index_file(kept_path), fingerprint);
    const mapped_file file(path);
    if (kept && kept->is_of(file) && (kept->begins.empty() || kept->begins[0] == kind_of_text(file).begin))
      return *std::move(kept);
  } catch (const std::runtime_error&) { // the scan below notes that the file can't be read
  }
  line_index index = scan_lines(path, stop);
  if (index.problem.empty()) write_index_file(kept_path, line_index_name, to_words(index, fingerprint));
  return index;
}

FEEDLINE_INLINE found_line find_line(const mapped_file& file, const line_index& index, std::uint64_t line) {
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  std::size_t at = static_cast<std::size_t>(index.begins[static_cast<std::size_t>(line / index.step)]);
  bool is_right = line < index.step || text[at - 1] == '\n';
  for (std::uint64_t left = line % index.step; is_right && left > 0; --left) {
    at = text.find('\n', at) + 1;
    is_right = at > 0 && at < text.size();
  }
  if (!is_right)
    throw std::runtime_error(readable(file.path()) + ": no line " + std::to_string(line + 1) +
                             ", although its index has one: delete " +
                             readable(path_of_line_index(file.path())));
  const std::size_t end = text.find('\n', at);
  return {text.substr(at, end - at), end != text.npos};
}

FEEDLINE_INLINE lines_by_position::lines_by_position(const file_order& files, std::size_t max_line_bytes,
                                                     bool keep_index, const std::stop_token& stop)
    : files_(files), max_line_bytes_(max_line_bytes) {
  std::vector<line_index> indices(files_.names().size());
  run_each_on_threads(indices.size(), processors(), [&](std::size_t i) {
    throw_if_stopped(stop); // indices that were kept take no scan
    indices[i] = index_of_lines(files_.names()[i], keep_index, stop);
  });
  for (const line_index& index : indices) add_file(index.lines);
  indices_ = std::make_shared<const std::vector<line_index>>(std::move(indices));
  maps_ = std::make_shared<lazy_maps>(files_.names());
}

FEEDLINE_INLINE std::string lines_by_position::at(std::uint64_t position) const {
  const std::size_t number = file_of(position);
  const line_index& index = (*indices_)[number];
  if (!index.problem.empty()) throw std::runtime_error(index.problem);
  const auto file = maps_->at(number);
  if (!index.is_of(*file))
    throw std::runtime_error(readable(file->path()) + " has changed since it was indexed");
  const std::uint64_t line = position - first_of(number);
  const found_line found = find_line(*file, index, line);
  return finished_line(found.text, found.has_end, 0, max_line_bytes_, files_,
                       file_order::index_of(number, line));
}

FEEDLINE_INLINE bool lines_by_position::will_need(std::uint64_t position) const noexcept {
  constexpr std::uint64_t most = std::uint64_t{1} << 20; // of a long line
  const std::size_t number = file_of(position);
  const line_index& index = (*indices_)[number];
  if (!index.problem.empty()) return false;
  const auto known = static_cast<std::size_t>((position - first_of(number)) / index.step);
  const std::uint64_t begin = index.begins[known];
  const std::uint64_t end = known + 1 < index.begins.size() ? index.begins[known + 1] : index.bytes;
  return maps_->will_need_few(number, begin, std::min(end - begin, most));
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
