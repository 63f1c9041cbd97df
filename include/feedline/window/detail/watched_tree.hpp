// SPDX-License-Identifier: MIT
#pragma once
// The files of a directory tree: those that exist, then those that arrive (inotify(7)).
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
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
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <feedline/core/random.hpp>
#include <feedline/detail/file_search.hpp>
#include <feedline/detail/hidden_name.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/open_file.hpp>
#include <feedline/detail/readable_text.hpp>

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
inline std::optional<file_identity> identity_of_file(const std::string& path) noexcept {
  struct statx status {};

  // The time of creation, where the file system has it, distinguishes it from an earlier file with the same inode number.
  if (::statx(AT_FDCWD, path.c_str(), 0, STATX_BASIC_STATS | STATX_BTIME, &status) != 0) return {};
  if (!S_ISREG(status.stx_mode)) return {};
  const auto time = [](const statx_timestamp& t) {
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
  };
  return file_identity{key(status.stx_dev_major, status.stx_dev_minor, status.stx_ino),
                       key(status.stx_size, time(status.stx_mtime), time(status.stx_btime))};
}

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
  watched_tree(const settings& s, bool goes_on, std::stop_token stop)
      : settings_(s), goes_on_(goes_on), stop_(std::move(stop)) {}

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
  step next(std::string& path) {
    constexpr unsigned often = 64; // so that events don't pile up in the kernel while files are yielded
    if (!scanned_) start();
    if (++calls_ % often == 0) read_events();
    while (!stop_.stop_requested()) {
      if (!problems_.empty()) {
        const std::system_error problem = problems_.front();
        problems_.pop_front();
        throw problem;
      }
      if (!mark_was_given_ && first_ == mark_) {
        mark_was_given_ = true;
        return step::scan_complete;
      }
      if (!pending_.empty()) {
        const bool is_old = first_ < mark_;
        const bool is_there = find_first();
        path = std::move(pending_.front().path);
        pending_.pop_front();
        ++first_;
        if (is_there) return is_old ? step::at_start : step::arrived;
      } else if (has_ended()) {
        return step::end;
      } else {
        wait();
        read_events();
      }
    }
    return step::end;
  }

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

  bool has_next() const noexcept {
    return !pending_.empty() || !problems_.empty() || (scanned_ && !mark_was_given_) || has_ended();
  }

  void start() {
    scanned_ = true;
    if (goes_on_) {
      events_ = open_file(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
      wake_ = open_file(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
      if (!events_ || !wake_) {
        end_with(errno, errno == EMFILE ? "no more directories can be watched by this user (see "
                                          "/proc/sys/fs/inotify/max_user_instances): "
                                        : "can't watch ");
        mark_was_given_ = true;
        return;
      }
    }
    scan(nobody, settings_.directory, true);
    mark_ = first_ + pending_.size();
    alive_ = files_.size();
    if (gone_) mark_was_given_ = true;
  }

  // --- Waiting

  void wait() const noexcept {
    const std::stop_callback wake(stop_, [this] {
      const std::uint64_t one = 1;
      static_cast<void>(
          !::write(wake_.number(), &one, sizeof one)); // if the counter is full, the thread is awake
    });
    std::array<::pollfd, 2> both{{{events_.number(), POLLIN, 0}, {wake_.number(), POLLIN, 0}}};
    while (::poll(both.data(), both.size(), -1) < 0 && errno == EINTR) continue;
  }

  // --- Events

  void read_events() {
    if (!events_) return;
    alignas(inotify_event) std::array<char, 16 << 10> buffer;
    bool came = false;
    while (!gone_ && !stop_.stop_requested()) {
      const ::ssize_t size = ::read(events_.number(), buffer.data(), buffer.size());
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) break;
      came = true;
      for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
        inotify_event event;
        std::memcpy(&event, buffer.data() + at, sizeof event);
        const char* const name = buffer.data() + at + sizeof event; // padded with zeros
        hear(event, event.len > 0 ? std::string_view(name) : std::string_view());
        at += sizeof event + event.len;
      }
    }
    if (!came) return;
    forget_moved();
    for (auto& [number, name] : std::exchange(created_, {}))
      if (!is_away(number)) look_at(number, std::move(name), true);
    add_found(false);
    // No event reports removed files, so a scan finds them when `files_` has grown.
    constexpr std::size_t few = 4096;
    if (files_.size() > 2 * alive_ + few) look_at_all();
  }

  void hear(const inotify_event& event, std::string_view name) {
    if ((event.mask & IN_Q_OVERFLOW) != 0) return look_at_all();
    if (const auto written = written_.find(event.wd); written != written_.end()) {
      if ((event.mask & IN_CLOSE_WRITE) != 0) created_.push_back(std::move(written->second));
      written_.erase(written);
      return;
    }
    const auto found = folders_.find(event.wd);
    if (found == folders_.end() || gone_) return;
    if (found->second.parent == nobody &&
        (event.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED)) != 0)
      return end_with(ENOENT, (event.mask & IN_MOVE_SELF) != 0 ? "the watched directory was moved away: "
                                                               : "the watched directory was removed: ");
    if ((event.mask & IN_IGNORED) != 0) {
      folders_.erase(found);
      return;
    }
    // A moved folder is scanned as a whole at its new path.
    if (name.empty() || (!settings_.hidden && is_hidden(name)) || is_away(event.wd)) return;
    if ((event.mask & IN_ISDIR) != 0) {
      if ((event.mask & IN_MOVED_FROM) != 0) lose(event.wd, name);
      if ((event.mask & (IN_CREATE | IN_MOVED_TO)) != 0)
        scan(event.wd, std::string(name), (event.mask & IN_MOVED_TO) != 0);
    } else if ((event.mask & (IN_CLOSE_WRITE | IN_MOVED_TO)) != 0) {
      arrive(event.wd, name);
    } else if ((event.mask & IN_CREATE) != 0) {
      if (!is_link(path_of(event.wd) + "/" + std::string(name))) {
        created_.emplace_back(event.wd, name); // its writer may close it until all events are read
        return;
      }
      look_at(event.wd, std::string(name));
      add_found(false);
    }
  }

  /// Notes that a folder was moved away.
  void lose(int parent, std::string_view name) {
    for (auto& [number, f] : folders_)
      if (f.parent == parent && f.name == name && f.away == 0) f.away = round_;
  }

  /// Forgets folders that were moved out of the tree: no event since the previous round reported their new path.
  void forget_moved() {
    std::vector<int> lost;
    for (const auto& [number, f] : folders_)
      if (f.away != 0 && f.away < round_) lost.push_back(number);
    std::vector<int> below;
    for (const auto& [number, f] : folders_)
      for (const int top : lost)
        if (is_below(number, top)) below.push_back(number);
    for (const int number : below) stop_watching(number);
    ++round_;
  }

  void stop_watching(int number) {
    ::inotify_rm_watch(events_.number(), number);
    folders_.erase(number);
  }

  /// Scans everything, because events were lost or removed files must be forgotten.
  void look_at_all() {
    scan(nobody, settings_.directory, true);
    if (gone_ || stop_.stop_requested()) return;
    std::vector<int> lost;
    for (const auto& [number, f] : folders_)
      if (f.scan != scans_) lost.push_back(number);
    for (const int number : lost) stop_watching(number);
    std::erase_if(files_, [&](const auto& f) { return f.second.scan != scans_ && !is_pending(f.second); });
    alive_ = files_.size();
  }

  /// Adds a file that is complete.
  void arrive(int number, std::string_view name) {
    if (!is_wanted(name)) return;
    std::string path = path_of(number) + "/" + std::string(name);
    // A file that isn't found was removed, or was renamed and a later event reports its new name.
    if (const auto id = identity_of_file(path)) add(*id, std::move(path));
  }

  // --- Scans

  /// Watches a folder and those below it, and adds their files. `again`: also of folders that are watched already.
  void scan(int parent, std::string name, bool again) {
    ++scans_;
    std::vector<std::pair<int, std::string>> left{{parent, std::move(name)}};
    while (!left.empty() && !gone_ && !stop_.stop_requested()) {
      auto [above, last] = std::move(left.back());
      left.pop_back();
      scan_one(above, std::move(last), again, left);
    }
    add_found(scans_ == 1 && settings_.newest_first);
  }

  void scan_one(int parent, std::string name, bool again, std::vector<std::pair<int, std::string>>& left) {
    const std::string path = parent == nobody ? name : path_of(parent) + "/" + name;
    const int number = watch(path, parent == nobody);
    if (number < 0) return;
    const auto [place, is_new] = folders_.try_emplace(number);
    folder& f = place->second;
    // A later event reports that.
    const bool is_elsewhere = f.away != 0 || f.parent != parent || f.name != name;
    if (!is_new && (f.scan == scans_ || !(again || is_elsewhere)))
      return; // this scan, or an earlier one, saw it already
    f = {parent, std::move(name), scans_, 0};

    const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(path.c_str()), ::closedir);
    if (!listing) return not_listed(errno, path, parent == nobody);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* const entry = ::readdir(listing.get())) {
      const std::string_view entry_name = entry->d_name;
      if (entry_name == "." || entry_name == ".." || (!settings_.hidden && is_hidden(entry_name))) continue;
      if (is_folder(path, *entry)) left.emplace_back(number, entry_name);
      else names.emplace_back(entry_name);
      errno = 0;
    }
    if (errno != 0) not_listed(errno, path, parent == nobody);
    for (std::string& file : names) look_at(number, std::move(file));
  }

  // A link doesn't count as a folder: it may lead to a folder above it.
  static bool is_folder(const std::string& path, const dirent& entry) {
    if (entry.d_type != DT_UNKNOWN) return entry.d_type == DT_DIR;

    struct stat status {};

    return ::lstat((path + "/" + entry.d_name).c_str(), &status) == 0 && S_ISDIR(status.st_mode);
  }

  static bool is_link(const std::string& path) {
    struct stat status {};

    return ::lstat(path.c_str(), &status) == 0 &&
           (S_ISLNK(status.st_mode) || (S_ISREG(status.st_mode) && status.st_nlink > 1));
  }

  /// Whether a new file was linked: then it is complete, while one that was created by its writer isn't yet. The latter
  /// can look linked if it is complete too.
  static bool was_linked(const std::string& path, being_written by) {
    struct statx status {};

    if (is_link(path)) return true;
    if (::statx(AT_FDCWD, path.c_str(), 0, STATX_BASIC_STATS | STATX_BTIME, &status) != 0) return false;
    const auto is_later = [](const statx_timestamp& a, const statx_timestamp& b) {
      return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
    };
    // A link changes the file's status, a write its contents too.
    if (by == being_written::unknown) return is_later(status.stx_ctime, status.stx_mtime);
    // The system reports a new file before it opens it for its writer: then it is empty.
    return status.stx_size > 0 ||
           ((status.stx_mask & STATX_BTIME) != 0 && is_later(status.stx_ctime, status.stx_btime));
  }

  /// The number of the folder's watch; negative if it can't be watched.
  int watch(const std::string& path, bool is_first) {
    if (!goes_on_) return static_cast<int>(folders_.size());
    const std::uint32_t links = is_first ? 0 : IN_DONT_FOLLOW;
    const int number =
        ::inotify_add_watch(events_.number(), path.c_str(),
                            IN_CLOSE_WRITE | IN_CREATE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF |
                                IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK | links);
    if (number < 0) not_listed(errno, path, is_first);
    return number;
  }

  void not_listed(int reason, const std::string& path, bool is_first) {
    const bool has_gone = reason == ENOENT || reason == ENOTDIR;
    if (is_first) return end_with(reason, has_gone ? "the watched directory was removed: " : "can't watch ");
    if (has_gone) return;
    problems_.emplace_back(reason, std::generic_category(),
                           (reason == ENOSPC ? "no more directories can be watched by this user (see "
                                               "/proc/sys/fs/inotify/max_user_watches): "
                                             : "can't watch ") +
                               readable(path));
  }

  void end_with(int reason, const std::string& what) {
    gone_ = true;
    problems_.emplace_back(reason, std::generic_category(), what + readable(settings_.directory));
  }

  /// Examines a file that a scan found or, `is_created`, that has a new name there. If it is open for writing, it is
  /// examined again when it is closed.
  void look_at(int number, std::string name, bool is_created = false) {
    if (!is_wanted(name)) return;
    std::string path = path_of(number) + "/" + name;
    auto id = identity_of_file(path);
    if (!id) return;
    if (const auto known = files_.find(id->file); known != files_.end()) {
      known->second.scan = scans_;
      if (is_pending(known->second)) pending(known->second).path = path;
      if (known->second.version == id->version) return;
    }
    // A file that can't be opened is yielded too: the stage that reads it reports why.
    const open_file file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    being_written by = file ? asks_who_writes(file) : being_written::unknown;
    if (by == being_written::yes) {
      if (!events_) return;
      // The folder's watch doesn't report that it is closed if it was opened by another name, or without one.
      const int watch = ::inotify_add_watch(events_.number(), path.c_str(), IN_CLOSE_WRITE | IN_ONESHOT);
      by = asks_who_writes(file); // it may have been closed before
      if (by == being_written::yes) {
        if (watch >= 0) written_[watch] = {number, std::move(name)};
        return;
      }
    }
    if (is_created && !was_linked(path, by)) return; // an event reports that its writer closes it

    struct stat status {};

    // Now that it is complete.
    if (::stat(path.c_str(), &status) != 0 || !(id = identity_of_file(path))) return;
    found_.push_back({std::move(path), *id, file_state(status).modified_ns});
  }

  void add_found(bool newest_first) {
    std::sort(found_.begin(), found_.end(), [&](const found_file& a, const found_file& b) {
      if (newest_first && a.modified_ns != b.modified_ns) return a.modified_ns > b.modified_ns;
      return a.path < b.path;
    });
    for (found_file& found : found_) add(found.id, std::move(found.path));
    found_.clear();
  }

  // --- The stream

  void add(const file_identity& id, std::string path) {
    known_file& file = files_[id.file];
    file.scan = scans_;
    const bool is_known = std::exchange(file.version, id.version) == id.version;
    if (is_pending(file)) {
      pending(file).path = std::move(path);
    } else if (!is_known) {
      file.number = first_ + pending_.size();
      pending_.push_back({std::move(path), id.file});
    }
  }

  bool is_pending(const known_file& file) const noexcept { return file.number >= first_; }

  pending_file& pending(const known_file& file) {
    return pending_[static_cast<std::size_t>(file.number - first_)];
  }

  /// Makes sure that the path of the first pending file still belongs to it. A removed file is yielded, so that its
  /// reader fails. False: another file has this path now, and its own position in the stream.
  bool find_first() {
    for (bool is_sure = !events_;; is_sure = true) {
      const auto id = identity_of_file(pending_.front().path);
      if (id && id->file == pending_.front().file) {
        files_[id->file].version = id->version;
        return true;
      }
      if (is_sure) return !id;
      read_events();
    }
  }

  bool is_wanted(std::string_view name) const {
    return std::any_of(settings_.patterns.begin(), settings_.patterns.end(), [&](const std::string& pattern) {
      return matches_name(pattern, std::string(name).c_str(), settings_.hidden);
    });
  }

  std::string path_of(int number) const {
    const folder& f = folders_.at(number);
    return f.parent == nobody ? f.name : path_of(f.parent) + "/" + f.name;
  }

  bool is_below(int number, int top) const {
    for (auto f = folders_.find(number); f != folders_.end(); f = folders_.find(f->second.parent))
      if (f->first == top) return true;
    return false;
  }

  /// Whether its path is unknown, because it or a folder above it was moved away.
  bool is_away(int number) const {
    for (auto f = folders_.find(number); f != folders_.end(); f = folders_.find(f->second.parent)) {
      if (f->second.away != 0) return true;
      if (f->second.parent == nobody) return false;
    }
    return true;
  }

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
