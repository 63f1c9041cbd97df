// SPDX-License-Identifier: MIT
#pragma once
// A cache of files that stay open between reads.
#include <cerrno>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/open_file.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A regular file that is open for reading, and its state when it was opened.
struct opened_file {
  open_file file;
  file_state state;

  /// Opens a file. Throws std::system_error, whose what() is "PATH: REASON", or std::runtime_error if it isn't a regular
  /// file.
  static opened_file at(const std::string& path) {
    state_of(path); // checked first, because opening a device can have effects
    // Without O_NONBLOCK, opening a named pipe would wait for its writer.
    open_file file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));

    struct stat status {};

    if (!file || ::fstat(file.number(), &status) != 0) fail(errno, path);
    return {std::move(file), checked(status, path)};
  }

  /// The state of a file that isn't opened. Throws the same.
  static file_state state_of(const std::string& path) {
    struct stat status {};

    if (::stat(path.c_str(), &status) != 0) fail(errno, path);
    return checked(status, path);
  }

 private:
  static file_state checked(const struct stat& status, const std::string& path) {
    if (S_ISDIR(status.st_mode)) fail(EISDIR, path);
    if (!S_ISREG(status.st_mode)) throw std::runtime_error(readable(path) + ": is not a regular file");
    return file_state(status);
  }

  [[noreturn]] static void fail(int reason, const std::string& path) {
    throw std::system_error(reason, std::generic_category(), readable(path));
  }
};

/// Opens files at their first use and closes the least recently used one. Any thread may use it.
class file_cache {
 public:
  explicit file_cache(std::size_t max_files) : max_files_(max_files) {}

  file_cache(const file_cache&) = delete;

  /// The file of `owner`, opened if it isn't open. Throws as opened_file::at() does; the next call tries again.
  std::shared_ptr<const opened_file> get(const void* owner, const std::string& path) {
    if (auto open = find(owner)) return open;
    auto opened = std::make_shared<const opened_file>(opened_file::at(path));
    std::shared_ptr<const opened_file> oldest; // closed without the lock
    const std::lock_guard lock(mutex_);
    if (const auto found = by_owner_.find(owner); found != by_owner_.end()) return found->second->file;
    if (files_.size() >= max_files_) {
      oldest = std::move(files_.back().file);
      by_owner_.erase(files_.back().owner);
      files_.pop_back();
    }
    files_.push_front({owner, opened});
    by_owner_[owner] = files_.begin();
    return opened;
  }

  /// Closes the file of `owner`, which is not needed any more.
  void forget(const void* owner) noexcept {
    std::shared_ptr<const opened_file> closed;
    const std::lock_guard lock(mutex_);
    const auto found = by_owner_.find(owner);
    if (found == by_owner_.end()) return;
    closed = std::move(found->second->file);
    files_.erase(found->second);
    by_owner_.erase(found);
  }

 private:
  struct entry {
    const void* owner;
    std::shared_ptr<const opened_file> file;
  };

  std::shared_ptr<const opened_file> find(const void* owner) {
    const std::lock_guard lock(mutex_);
    const auto found = by_owner_.find(owner);
    if (found == by_owner_.end()) return nullptr;
    files_.splice(files_.begin(), files_, found->second);
    return found->second->file;
  }

  const std::size_t max_files_;
  std::mutex mutex_;
  std::list<entry> files_; // the most recently used one first
  std::unordered_map<const void*, std::list<entry>::iterator> by_owner_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
