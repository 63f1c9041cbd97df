// SPDX-License-Identifier: MIT
#pragma once
// The files of a directory tree: those that exist, then those that arrive (inotify(7)).
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/inotify.h>

#include <feedline/detail/open_file.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Whether some process has a file open for writing.
enum class being_written { no, yes, unknown };

/// Takes a lease, which the system grants only while nobody has the file open for writing, and releases it. unknown: the
/// file is another user's, or its file system has no leases.
inline being_written asks_who_writes(const open_file& file) noexcept {
  // If a process opens the file for writing meanwhile, it waits and this one gets a signal. SIGURG is ignored, SIGIO
  // isn't.
  ::fcntl(file.number(), F_SETSIG, SIGURG);
  if (::fcntl(file.number(), F_SETLEASE, F_RDLCK) != 0)
    return errno == EAGAIN ? being_written::yes : being_written::unknown;
  ::fcntl(file.number(), F_SETLEASE, F_UNLCK);
  return being_written::no;
}

/// Unique numbers of a file and of its version.
struct file_identity {
  std::uint64_t file = 0;
  std::uint64_t version = 0;
};

/// The identity of a regular file; nothing if it isn't one or doesn't exist.
std::optional<file_identity> identity_of_file(const std::string& path) noexcept;

/// A stream of paths. It yields each version of a file once, when it is complete: a written file when its writer closes
/// it, a moved file at once, and a linked file, or one found by a scan, if nobody has it open for writing. Files are
/// identified by inode, not by name, because the names in events may be out of date. It keeps about 60 bytes for each file.
class watched_tree {
 public:
  struct settings {
    std::string directory;
    std::vector<std::string> patterns;
    bool newest_first = false;
    bool hidden = false; // also hidden names
  };

  /// `goes_on`: continue after the scan, with the files that arrive.
  watched_tree(const settings& s, bool goes_on, std::stop_token stop);

  watched_tree(const watched_tree&) = delete;

  /// Whether next() returns without a wait.
  bool ready() {
    if (!scanned_) start();
    if (!has_next()) read_events();
    return has_next();
  }

  enum class step { at_start, scan_complete, arrived, end };

  /// Waits for the next step and stores the file's path in `path`. Throws std::system_error for a directory that can't be
  /// watched.
  step next(std::string& path);

 private:
  static constexpr int nobody = -1;

  struct known_file {
    std::uint64_t version = 0;
    std::uint64_t number = 0; // in the stream
    std::uint64_t scan = 0;   // the last one that saw it
  };

  /// Its key is the number of its watch, which doesn't change when it is moved.
  struct folder {
    int parent = nobody;
    std::string name;       // in its parent; for the top folder its path
    std::uint64_t scan = 0; // the last one that saw it
    std::uint64_t away = 0; // the round in which it was moved to an unknown path; 0: its path is known
  };

  struct found_file {
    std::string path;
    file_identity id;
    std::int64_t modified_ns;
  };

  struct pending_file {
    std::string path;
    std::uint64_t file;
  };

  bool has_ended() const noexcept { return !goes_on_ || gone_; }

  bool has_next() const noexcept;

  void start();

  // --- Waiting

  void wait() const noexcept;

  // --- Events

  void read_events();

  void hear(const inotify_event& event, std::string_view name);

  /// Notes that a folder was moved away.
  void lose(int parent, std::string_view name);

  /// Forgets folders that were moved out of the tree: no event since the previous round reported their new path.
  void forget_moved();

  void stop_watching(int number);

  /// Scans everything, because events were lost or removed files must be forgotten.
  void look_at_all();

  /// Adds a file that is complete.
  void arrive(int number, std::string_view name);

  // --- Scans

  /// Watches a folder and those below it, and adds their files. `again`: also of folders that are watched already.
  void scan(int parent, std::string name, bool again);

  void scan_one(int parent, std::string name, bool again, std::vector<std::pair<int, std::string>>& left);

  // A link doesn't count as a folder: it may lead to a folder above it.
  static bool is_folder(const std::string& path, const dirent& entry);

  static bool is_link(const std::string& path);

  /// Whether a new file was linked: then it is complete, while one that was created by its writer isn't yet. The latter
  /// can look linked if it is complete too.
  static bool was_linked(const std::string& path, being_written by);

  /// The number of the folder's watch; negative if it can't be watched.
  int watch(const std::string& path, bool is_first);

  void not_listed(int reason, const std::string& path, bool is_first);

  void end_with(int reason, const std::string& what);

  /// Examines a file that a scan found or, `is_created`, that has a new name there. If it is open for writing, it is
  /// examined again when it is closed.
  void look_at(int number, std::string name, bool is_created = false);

  void add_found(bool newest_first);

  // --- The stream

  void add(const file_identity& id, std::string path);

  bool is_pending(const known_file& file) const noexcept { return file.number >= first_; }

  pending_file& pending(const known_file& file);

  /// Makes sure that the path of the first pending file still belongs to it. A removed file is yielded, so that its
  /// reader fails. False: another file has this path now, and its own position in the stream.
  bool find_first();

  bool is_wanted(std::string_view name) const;

  std::string path_of(int number) const;

  bool is_below(int number, int top) const;

  /// Whether its path is unknown, because it or a folder above it was moved away.
  bool is_away(int number) const;

  const settings settings_;
  const bool goes_on_;
  const std::stop_token stop_;
  open_file events_; // of inotify
  open_file wake_;   // a stop writes to it

  std::unordered_map<int, folder> folders_;
  std::unordered_map<std::uint64_t, known_file> files_;
  std::size_t alive_ = 0;                            // how many existed after the last scan of everything
  std::vector<std::pair<int, std::string>> created_; // since the last round: folder and name
  std::unordered_map<int, std::pair<int, std::string>> written_; // files open for writing, by their watches
  std::vector<found_file> found_;
  std::uint64_t round_ = 1; // of reading events
  std::uint64_t scans_ = 0;

  std::deque<pending_file> pending_;
  std::uint64_t first_ = 1; // number of the first pending file; 0: none
  std::uint64_t mark_ = 0;  // number of the first file after the scan
  std::deque<std::system_error> problems_;
  bool scanned_ = false;
  bool mark_was_given_ = false;
  bool gone_ = false; // the top folder
  unsigned calls_ = 0;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/source/detail/watched_tree.ipp>
#endif
