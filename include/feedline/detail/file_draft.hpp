// SPDX-License-Identifier: MIT
#pragma once
// Files that are written whole or not at all.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <feedline/detail/open_file.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The right to write a file, which one thread of one process has: a lock on another file, its draft, which gets the name of
/// that file in the end. The lock ends with the process; where the file system has no locks, everyone has the right.
class file_draft {
 public:
  /// The right to write to the draft with that path. If another one has it, returns nothing, or waits for it. Throws
  /// std::system_error that names the draft if it can't be made.
  static std::optional<file_draft> begin(const std::string& path, bool wait = false) {
    for (;;) {
      open_file file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
      if (!file) throw std::system_error(errno, std::generic_category(), readable(path));
      if (!file.lock(wait) && errno == EWOULDBLOCK) return {};
      if (!is_at(file, path)) continue; // the one before has just finished
      return file_draft(path, std::move(file));
    }
  }

  /// Removes a draft that was found at that path, if nobody writes it.
  static void remove_if_abandoned(const open_file& found, const std::string& path) noexcept {
    // Its writer may have kept it since, and another one begun the same part.
    if (found.lock(false) && is_at(found, path)) ::unlink(path.c_str());
  }

  file_draft(file_draft&& other) noexcept
      : path_(std::exchange(other.path_, {})), file_(std::move(other.file_)) {}

  file_draft& operator=(file_draft&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(file_, other.file_);
    return *this;
  }

  /// Removes it, unless it was kept.
  ~file_draft() {
    if (!path_.empty()) ::unlink(path_.c_str());
    if (file_) file_.unlock(); // before it is closed, which wakes those that wait
  }

  /// Writes these bytes, one span after another, and gives the file that name. If there is a file with that name, who may
  /// read and write it stays as it is. With `on_disk`, the bytes are on the disk before. Returns 0 or an errno value.
  int keep(const std::string& as, std::initializer_list<std::span<const std::byte>> bytes,
           bool on_disk = false) {
    const std::optional<::mode_t> mode = mode_of(as);
    // Before anybody could read the bytes; the owner may continue a draft that was left.
    int failed = mode && ::fchmod(file_.number(), *mode | 0600) != 0 ? errno : 0;
    if (failed == 0) failed = file_.resize(0); // a process that was killed may have left something
    std::uint64_t written = 0;
    for (const std::span<const std::byte> part : bytes) {
      if (failed == 0) failed = file_.write(part.data(), part.size(), written);
      written += part.size();
    }
    // Otherwise the name might reach the disk before the bytes, and after a crash of the machine both would be lost.
    if (failed == 0 && on_disk && ::fsync(file_.number()) != 0) failed = errno;
    // Last, as a draft that was left with a mode that forbids writing couldn't be continued.
    if (failed == 0 && mode && ::fchmod(file_.number(), *mode) != 0) failed = errno;
    if (failed == 0 && std::rename(path_.c_str(), as.c_str()) != 0) failed = errno;
    if (failed == 0) path_.clear();
    return failed;
  }

 private:
  file_draft(std::string path, open_file file) : path_(std::move(path)), file_(std::move(file)) {}

  // Who may read and write the file with that name, if there is one. Gives the draft to its group.
  std::optional<::mode_t> mode_of(const std::string& path) const noexcept {
    struct stat there {
    }, own{};

    if (::stat(path.c_str(), &there) != 0 || ::fstat(file_.number(), &own) != 0) return {};
    const bool has_group =
        there.st_gid == own.st_gid || ::fchown(file_.number(), static_cast<::uid_t>(-1), there.st_gid) == 0;
    return there.st_mode & (has_group ? 0777 : 0707);
  }

  static bool is_at(const open_file& file, const std::string& path) noexcept {
    struct stat here {
    }, there{};

    return ::fstat(file.number(), &here) == 0 && ::stat(path.c_str(), &there) == 0 &&
           here.st_ino == there.st_ino && here.st_dev == there.st_dev;
  }

  std::string path_; // empty: it was kept
  open_file file_;
};

/// The name of the draft of a file, which no file of a user's has.
inline std::string draft_name(const std::string& path) { return path + ".feedline-draft"; }

/// Replaces the file with that name, which stays until the new one is on the disk. Throws std::system_error that names the
/// file.
inline void replace_file(const std::string& path, std::span<const std::byte> bytes) {
  if (const int failed = file_draft::begin(draft_name(path), true)->keep(path, {bytes}, true); failed != 0)
    throw std::system_error(failed, std::generic_category(), path);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
