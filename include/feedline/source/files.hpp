// SPDX-License-Identifier: MIT
#pragma once
// files: a source of the names of a directory's files; a stage reads them, on any number of workers.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/source.hpp>
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

#ifndef FEEDLINE_COMPILED
#include <feedline/source/files.ipp>
#endif
