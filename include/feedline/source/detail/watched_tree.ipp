// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/detail/watched_tree.hpp>

#include <algorithm>
#include <array>
#include <memory>

#include <sys/eventfd.h>
#include <sys/poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <feedline/core/random.hpp>
#include <feedline/detail/file_search.hpp>
#include <feedline/detail/hidden_name.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::optional<file_identity> identity_of_file(const std::string& path) noexcept {
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

FEEDLINE_INLINE watched_tree::watched_tree(const settings& s, bool goes_on, std::stop_token stop)
    : settings_(s), goes_on_(goes_on), stop_(std::move(stop)) {}

FEEDLINE_INLINE watched_tree::step watched_tree::next(std::string& path) {
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

FEEDLINE_INLINE bool watched_tree::has_next() const noexcept {
  return !pending_.empty() || !problems_.empty() || (scanned_ && !mark_was_given_) || has_ended();
}

FEEDLINE_INLINE void watched_tree::start() {
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

FEEDLINE_INLINE void watched_tree::wait() const noexcept {
  const std::stop_callback wake(stop_, [this] {
    const std::uint64_t one = 1;
    static_cast<void>(
        !::write(wake_.number(), &one, sizeof one)); // if the counter is full, the thread is awake
  });
  std::array<::pollfd, 2> both{{{events_.number(), POLLIN, 0}, {wake_.number(), POLLIN, 0}}};
  while (::poll(both.data(), both.size(), -1) < 0 && errno == EINTR) continue;
}

FEEDLINE_INLINE void watched_tree::read_events() {
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

FEEDLINE_INLINE void watched_tree::hear(const inotify_event& event, std::string_view name) {
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

FEEDLINE_INLINE void watched_tree::lose(int parent, std::string_view name) {
  for (auto& [number, f] : folders_)
    if (f.parent == parent && f.name == name && f.away == 0) f.away = round_;
}

FEEDLINE_INLINE void watched_tree::forget_moved() {
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

FEEDLINE_INLINE void watched_tree::stop_watching(int number) {
  ::inotify_rm_watch(events_.number(), number);
  folders_.erase(number);
}

FEEDLINE_INLINE void watched_tree::look_at_all() {
  scan(nobody, settings_.directory, true);
  if (gone_ || stop_.stop_requested()) return;
  std::vector<int> lost;
  for (const auto& [number, f] : folders_)
    if (f.scan != scans_) lost.push_back(number);
  for (const int number : lost) stop_watching(number);
  std::erase_if(files_, [&](const auto& f) { return f.second.scan != scans_ && !is_pending(f.second); });
  alive_ = files_.size();
}

FEEDLINE_INLINE void watched_tree::arrive(int number, std::string_view name) {
  if (!is_wanted(name)) return;
  std::string path = path_of(number) + "/" + std::string(name);
  // A file that isn't found was removed, or was renamed and a later event reports its new name.
  if (const auto id = identity_of_file(path)) add(*id, std::move(path));
}

FEEDLINE_INLINE void watched_tree::scan(int parent, std::string name, bool again) {
  ++scans_;
  std::vector<std::pair<int, std::string>> left{{parent, std::move(name)}};
  while (!left.empty() && !gone_ && !stop_.stop_requested()) {
    auto [above, last] = std::move(left.back());
    left.pop_back();
    scan_one(above, std::move(last), again, left);
  }
  add_found(scans_ == 1 && settings_.newest_first);
}

FEEDLINE_INLINE void watched_tree::scan_one(int parent, std::string name, bool again,
                                            std::vector<std::pair<int, std::string>>& left) {
  const std::string path = parent == nobody ? name : path_of(parent) + "/" + name;
  const int number = watch(path, parent == nobody);
  if (number < 0) return;
  const auto [place, is_new] = folders_.try_emplace(number);
  folder& f = place->second;
  const bool is_elsewhere = f.away != 0 || f.parent != parent || f.name != name; // a later event reports that
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

FEEDLINE_INLINE bool watched_tree::is_folder(const std::string& path, const dirent& entry) {
  if (entry.d_type != DT_UNKNOWN) return entry.d_type == DT_DIR;

  struct stat status {};

  return ::lstat((path + "/" + entry.d_name).c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

FEEDLINE_INLINE bool watched_tree::is_link(const std::string& path) {
  struct stat status {};

  return ::lstat(path.c_str(), &status) == 0 &&
         (S_ISLNK(status.st_mode) || (S_ISREG(status.st_mode) && status.st_nlink > 1));
}

FEEDLINE_INLINE bool watched_tree::was_linked(const std::string& path, being_written by) {
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

FEEDLINE_INLINE int watched_tree::watch(const std::string& path, bool is_first) {
  if (!goes_on_) return static_cast<int>(folders_.size());
  const std::uint32_t links = is_first ? 0 : IN_DONT_FOLLOW;
  const int number =
      ::inotify_add_watch(events_.number(), path.c_str(),
                          IN_CLOSE_WRITE | IN_CREATE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF |
                              IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK | links);
  if (number < 0) not_listed(errno, path, is_first);
  return number;
}

FEEDLINE_INLINE void watched_tree::not_listed(int reason, const std::string& path, bool is_first) {
  const bool has_gone = reason == ENOENT || reason == ENOTDIR;
  if (is_first) return end_with(reason, has_gone ? "the watched directory was removed: " : "can't watch ");
  if (has_gone) return;
  problems_.emplace_back(reason, std::generic_category(),
                         (reason == ENOSPC ? "no more directories can be watched by this user (see "
                                             "/proc/sys/fs/inotify/max_user_watches): "
                                           : "can't watch ") +
                             readable(path));
}

FEEDLINE_INLINE void watched_tree::end_with(int reason, const std::string& what) {
  gone_ = true;
  problems_.emplace_back(reason, std::generic_category(), what + readable(settings_.directory));
}

FEEDLINE_INLINE void watched_tree::look_at(int number, std::string name, bool is_created) {
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

  if (::stat(path.c_str(), &status) != 0 || !(id = identity_of_file(path))) return; // now that it is complete
  found_.push_back({std::move(path), *id, file_state(status).modified_ns});
}

FEEDLINE_INLINE void watched_tree::add_found(bool newest_first) {
  std::sort(found_.begin(), found_.end(), [&](const found_file& a, const found_file& b) {
    if (newest_first && a.modified_ns != b.modified_ns) return a.modified_ns > b.modified_ns;
    return a.path < b.path;
  });
  for (found_file& found : found_) add(found.id, std::move(found.path));
  found_.clear();
}

FEEDLINE_INLINE void watched_tree::add(const file_identity& id, std::string path) {
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

FEEDLINE_INLINE watched_tree::pending_file& watched_tree::pending(const known_file& file) {
  return pending_[static_cast<std::size_t>(file.number - first_)];
}

FEEDLINE_INLINE bool watched_tree::find_first() {
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

FEEDLINE_INLINE bool watched_tree::is_wanted(std::string_view name) const {
  return std::any_of(settings_.patterns.begin(), settings_.patterns.end(), [&](const std::string& pattern) {
    return matches_name(pattern, std::string(name).c_str(), settings_.hidden);
  });
}

FEEDLINE_INLINE std::string watched_tree::path_of(int number) const {
  const folder& f = folders_.at(number);
  return f.parent == nobody ? f.name : path_of(f.parent) + "/" + f.name;
}

FEEDLINE_INLINE bool watched_tree::is_below(int number, int top) const {
  for (auto f = folders_.find(number); f != folders_.end(); f = folders_.find(f->second.parent))
    if (f->first == top) return true;
  return false;
}

FEEDLINE_INLINE bool watched_tree::is_away(int number) const {
  for (auto f = folders_.find(number); f != folders_.end(); f = folders_.find(f->second.parent)) {
    if (f->second.away != 0) return true;
    if (f->second.parent == nobody) return false;
  }
  return true;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
