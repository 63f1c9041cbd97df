// SPDX-License-Identifier: MIT
#pragma once
// watch_directory: a source of the files of a directory: those that exist, then those that arrive during the run.
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/source/file_patterns.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of watch_directory.
struct watch_options {
  bool newest_first = false; ///< order the files of the start by the time of their last change, not by name
  bool hidden = false;       ///< also yield hidden files, and those in hidden directories
};

/// An item of watch_directory.
struct watched_file {
  /// What an item stands for.
  enum class kind : unsigned char {
    at_start,      ///< a file that existed when the run began
    scan_complete, ///< not a file, but a mark after the files of the start; yielded once, also if there were none
    arrived,       ///< a file that arrived later
  };

  std::string path;           ///< begins with the directory as the user passed it; empty for scan_complete
  kind what = kind::at_start; ///< what the item stands for

  /// Whether it is a file, not the mark.
  bool is_file() const noexcept { return what != kind::scan_complete; }
};

namespace detail {

class watched_tree;

class directory_source {
 public:
  static constexpr source_traits traits{.kind = "watch_directory", .live = true};

  directory_source(std::string directory, const file_patterns& patterns, const watch_options& options);

  void start_epoch(const epoch& e);

  bool ready() const;

  std::optional<watched_file> next();

  /// Linux can't open a longer path.
  std::optional<std::size_t> max_item_bytes() const noexcept;

 private:
  std::string directory_;
  file_patterns patterns_;
  watch_options options_;
  std::shared_ptr<watched_tree> tree_;
};

} // namespace detail

/// A source of the files of a directory and of all directories below it: first the files that exist, then a mark, then
/// the files that arrive. For Linux (inotify).
///
///     const auto games = fl::watch_directory("games", "*.gz")
///                        | fl::filter([](const fl::watched_file& f) { return f.is_file(); })
///                        | fl::map([](const fl::watched_file& f) { return fl::read_file(f.path); }, fl::workers{4});
///
/// Takes:   a directory; a pattern for names of files (`*`, `?`, `[…]`; see fnmatch(3)), or several:
///          `{"*.gz", "*.tar"}`.
///          Writers should use a name that no pattern matches, or that begins with a dot, and rename or link the file
///          when it is complete. A filter downstream can't replace a pattern: a file that it leaves out isn't yielded
///          again when it is renamed
/// Gives:   watched_file. First the files of the start, in the byte order of their paths or the newest first; then
///          watched_file::kind::scan_complete; then each file when its writer closes it, when it is moved there, alone or
///          with its directory, and when it is linked there (link, symlink, or O_TMPFILE and linkat): a file that is
///          linked while it is open for writing is yielded when it is closed. A finite run ends after the mark, an
///          infinite run when it is stopped
/// Skips:   hidden files and directories, whose names begin with a dot or are `__MACOSX`, and everything that isn't a
///          regular file. Links to files count as files; links to directories are not followed
/// Throws:  when it is made: std::system_error if the directory doesn't exist, isn't a directory or can't be listed, and
///          std::invalid_argument for an invalid pattern. next() throws std::system_error, and continues, for a directory
///          below that can't be read. If the directory itself is removed or moved, it throws std::system_error, and the
///          run ends
/// Stops:   at once
///
/// Each version of a file is yielded once. The inode, the size and the times identify a version, not the name. A file
/// that is written again or replaced is yielded again when it is complete, unless it is still to be yielded; a file
/// that is renamed or has several names isn't. A file that is removed after the source has seen it is yielded, and the
/// stage that opens it reports that it is gone. If the kernel's queue of events overflows
/// (fs.inotify.max_queued_events), the source scans all directories again and yields what is new. A file that is open
/// for writing during a scan is yielded when it is closed; a finite run leaves it out. Writers of other users' files,
/// and on some network file systems, aren't visible: there a file may be yielded too early, and then again, and a file that
/// is written, linked and removed under its other name within milliseconds may be overlooked.
///
/// Memory: about 60 bytes for each existing file, and the path of each file still to be yielded.
inline auto watch_directory(std::string directory, const file_patterns& patterns = "*",
                            const watch_options& options = {}) {
  return detail::as_pipeline(detail::directory_source(std::move(directory), patterns, options));
}

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_WINDOW)
#include <feedline/detail/file_search.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/window/detail/watched_tree.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE directory_source::directory_source(std::string directory, const file_patterns& patterns,
                                                   const watch_options& options)
    : directory_(std::move(directory)), patterns_(patterns), options_(options) {
  if (patterns.names().empty())
    throw std::invalid_argument("feedline::watch_directory: the list of patterns is empty");
  for (const std::string& pattern : patterns.names())
    if (pattern.empty() || pattern.find('/') != std::string::npos)
      throw std::invalid_argument(
          "feedline::watch_directory: the pattern " + in_backticks(pattern) +
          " must match names of files, in all directories below: it can't contain a slash");
  file_search::expect_folder(directory_);
  while (directory_.size() > 1 && directory_.back() == '/') directory_.pop_back();
}

FEEDLINE_INLINE void directory_source::start_epoch(const epoch& e) {
  const watched_tree::settings settings{directory_, patterns_.names(), options_.newest_first,
                                        options_.hidden};
  tree_ = std::make_shared<watched_tree>(settings, e.endless, e.stop);
}

FEEDLINE_INLINE bool directory_source::ready() const { return tree_->ready(); }

FEEDLINE_INLINE std::optional<watched_file> directory_source::next() {
  watched_file file;
  switch (tree_->next(file.path)) {
  case watched_tree::step::at_start:
    break;
  case watched_tree::step::scan_complete:
    file.what = watched_file::kind::scan_complete;
    break;
  case watched_tree::step::arrived:
    file.what = watched_file::kind::arrived;
    break;
  case watched_tree::step::end:
    return std::nullopt;
  }
  return file;
}

FEEDLINE_INLINE std::optional<std::size_t> directory_source::max_item_bytes() const noexcept {
  constexpr std::size_t longest_path = 4096;
  return sizeof(watched_file) + longest_path;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
