// SPDX-License-Identifier: MIT
#pragma once
// files: a source of the names of a directory's files; a stage reads them, on any number of workers.
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/detail/open_file.hpp>
#include <feedline/source/file_patterns.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of files.
struct files_options {
  bool recursive = false; ///< include subdirectories
  bool hidden = false;    ///< wildcards match hidden names too

  /// Has the system start to read a file when the source yields the name before it; with global_shuffle, 64 names before. For
  /// pipelines that read one file at a time; with workers, several files are read at once anyway.
  bool read_ahead = false;
};

namespace detail {

class files_source {
 public:
  static constexpr source_traits traits{.kind = "files", .yields_file_names = true};

  files_source(const std::string& directory, const file_patterns& patterns, files_options options);

  std::uint64_t size() const noexcept { return found_->names.size(); }

  std::string at(std::uint64_t position) const { return found_->names[static_cast<std::size_t>(position)]; }

  void will_need(std::uint64_t position) const noexcept;

  std::uint64_t fingerprint(std::uint64_t extent) const;

  /// The size of the longest name.
  std::optional<std::size_t> max_item_bytes() const noexcept;

  std::string origin(std::uint64_t index) const;

 private:
  struct listing {
    std::vector<std::string> names;
    bool reads_ahead;
  };

  std::shared_ptr<const listing> found_;
};

} // namespace detail

/// Lists the names of a directory's files.
///
/// Takes:   a directory and patterns for names (`*`, `?`, `[…]`; see fnmatch(3)). A pattern may contain
///          directories: `*/*.jpg`, `photos/**/*.jpg` (`**` is any number of directories). Wildcards don't
///          match hidden names, which begin with a dot or are `__MACOSX`
/// Gives:   the paths of regular files (also through links), listed once, when the source is made
/// Order:   sorted by the bytes of the paths, in every epoch
/// Throws:  std::system_error for a directory that can't be listed, std::runtime_error if no file matches any
///          pattern, std::invalid_argument for an empty list of patterns
/// Example: `files("train", {"*.jpg", "*.jpeg"}) | map(read_file, workers{8})`
inline auto files(const std::string& directory, const file_patterns& patterns = "*",
                  files_options options = {}) {
  return detail::as_pipeline(detail::files_source(directory, patterns, options));
}

/// Reads a whole file. Throws std::system_error, whose what() is "PATH: REASON".
inline constexpr auto read_file = [](const std::string& path) -> std::vector<std::byte> {
  return detail::contents_of_file(path);
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_SOURCE)
#include <fcntl.h>

#include <feedline/detail/file_search.hpp>
#include <feedline/detail/kernel.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE files_source::files_source(const std::string& directory, const file_patterns& patterns,
                                           files_options options) {
  file_search::expect_folder(directory);
  std::vector<std::string> names;
  std::string listed;
  for (const std::string& pattern : patterns.names()) {
    file_search search(pattern, file_search::kind::regular_files, options.hidden);
    if (options.recursive) search.look_everywhere();
    for (std::string& name : search.in(directory + "/")) names.push_back(std::move(name));
    listed += (listed.empty() ? "" : " or ") + in_backticks(pattern);
  }
  if (patterns.names().empty()) throw std::invalid_argument("feedline::files: the list of patterns is empty");
  if (names.empty()) throw std::runtime_error("no file in " + in_backticks(directory) + " matches " + listed);
  if (patterns.names().size() > 1) { // each search sorts its names
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
  }
  found_ = std::make_shared<const listing>(listing{std::move(names), options.read_ahead});
}

FEEDLINE_INLINE void files_source::will_need(std::uint64_t position) const noexcept {
  if (!found_->reads_ahead) return;
  constexpr std::uint64_t max_bytes = std::uint64_t{8} << 20;
  // Without O_NONBLOCK, opening a file that was replaced by a named pipe would wait for its writer.
  const open_file file(
      ::open(found_->names[static_cast<std::size_t>(position)].c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file) read_soon(file.number(), std::min(max_bytes, file.size()));
}

FEEDLINE_INLINE std::uint64_t files_source::fingerprint(std::uint64_t extent) const {
  std::uint64_t hash = key(extent);
  for (std::size_t i = 0; i < extent; ++i) hash = key(hash, stable_hash(last_name(found_->names[i])));
  return hash;
}

FEEDLINE_INLINE std::optional<std::size_t> files_source::max_item_bytes() const noexcept {
  std::size_t longest = 0;
  for (const std::string& name : found_->names) longest = std::max(longest, name.size());
  return sizeof(std::string) + longest + 1;
}

FEEDLINE_INLINE std::string files_source::origin(std::uint64_t index) const {
  return index < found_->names.size() ? readable(found_->names[index]) : std::string();
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
