// SPDX-License-Identifier: MIT
#pragma once
// watch_directory: a source of the files of a directory, those that are there and those that arrive while the run goes on.
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/epoch.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/source.hpp>
#include <feedline/detail/file_patterns.hpp>
#include <feedline/source/detail/watched_tree.hpp>

namespace feedline::inline v0 {

struct watch_options {
  bool newest_first =
      false; ///< the files that are there at the start: by the time of their last change, not by name
};

/// What watch_directory gives.
struct watched_file {
  enum class kind : unsigned char {
    at_start,      ///< a file that was there when the run began
    scan_complete, ///< no file: all that were there have come. Comes once, also if there were none
    arrived,       ///< a file that came later
  };

  std::string path; ///< begins with the directory as it was given; empty for scan_complete
  kind what = kind::at_start;

  bool is_file() const noexcept { return what != kind::scan_complete; }
};

namespace detail {

class directory_source {
 public:
  static constexpr source_traits traits{.kind = "watch_directory", .live = true};

  directory_source(std::string directory, std::vector<std::string> patterns, const watch_options& options) {
    if (patterns.empty()) throw std::invalid_argument("feedline::watch_directory: no patterns were given");
    for (const std::string& pattern : patterns)
      if (pattern.empty() || pattern.find('/') != std::string::npos)
        throw std::invalid_argument(
            "feedline::watch_directory: the pattern " + in_backticks(pattern) +
            " is one for names of files, in all directories below: it can't have a slash");
    file_search::expect_folder(directory);
    while (directory.size() > 1 && directory.back() == '/') directory.pop_back();
    settings_ = {std::move(directory), std::move(patterns), options.newest_first};
  }

  void start_epoch(const epoch& e) { tree_ = std::make_shared<watched_tree>(settings_, e.endless, e.stop); }

  bool ready() const { return tree_->ready(); }

  std::optional<watched_file> next() {
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

  /// Linux opens no longer path.
  std::optional<std::size_t> largest_item() const noexcept {
    constexpr std::size_t longest_path = 4096;
    return sizeof(watched_file) + longest_path;
  }

 private:
  watched_tree::settings settings_;
  std::shared_ptr<watched_tree> tree_; // of the run
};

} // namespace detail

/// A source of the files of a directory and of all directories below it: first those that are there, then a mark that says
/// so, then those that arrive. For Linux (inotify).
///
///     const auto games = fl::watch_directory("games", "*.gz")
///                        | fl::filter([](const fl::watched_file& f) { return f.is_file(); })
///                        | fl::map([](const fl::watched_file& f) { return fl::read_file(f.path); }, fl::workers{4});
///
/// Takes:   a directory; a pattern for names of files (`*`, `?`, `[…]`; see fnmatch(3)), or several: `{"*.gz", "*.tar"}`.
///          Let writers use names that none matches, or that begin with a dot, and rename a file when it is complete. A
///          filter downstream is no pattern: a file that it leaves out doesn't come again when it is renamed
/// Gives:   watched_file. Files at the start come in the order of the bytes of their paths, or the newest first; then comes
///          watched_file::kind::scan_complete; then each file when a writer has closed it, or when it was moved there, alone
///          or with its directory. A finite run ends after the mark; an infinite one when it is stopped
/// Skips:   names that begin with a dot, of directories too; what is no regular file. Links to files count as files, links
///          to directories are not followed
/// Throws:  when it is made, std::system_error for a directory that isn't there, isn't a directory or can't be listed, and
///          std::invalid_argument for a pattern with a slash. next() throws std::system_error, and goes on, for a directory
///          below that can't be read; and for the directory itself if it is removed or moved: then the run ends
/// Stops:   at once
///
/// A file comes once for each version, which is told by its inode, size and times, not by its name: one that is written to
/// again, or replaced by another one, comes again when that is complete, unless it hasn't come yet; one that is renamed, or
/// has several names, doesn't. One that is removed after the source has seen it comes all the same: the stage that opens it
/// says that it is gone. If more happens than the kernel takes notes of (fs.inotify.max_queued_events), the source looks
/// at everything again, and gives what is new. Files that somebody is writing to while it looks wait until they are closed;
/// that can't be seen of files of other users and on some network file systems, where a file may come too soon, and then
/// again. A finite run leaves them out.
///
/// Takes about 60 bytes of memory for each file that is there, and the path of each that has yet to come.
inline auto watch_directory(std::string directory, std::vector<std::string> patterns,
                            const watch_options& options = {}) {
  return detail::as_pipeline(detail::directory_source(std::move(directory), std::move(patterns), options));
}

inline auto watch_directory(std::string directory, std::string pattern = "*",
                            const watch_options& options = {}) {
  return watch_directory(std::move(directory), std::vector{std::move(pattern)}, options);
}

inline auto watch_directory(std::string directory, std::initializer_list<const char*> patterns,
                            const watch_options& options = {}) {
  return watch_directory(std::move(directory), std::vector<std::string>(patterns.begin(), patterns.end()),
                         options);
}

} // namespace feedline::inline v0
