// SPDX-License-Identifier: MIT
#pragma once
// A cache of files that stay open between reads.
#include <cerrno>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include <fcntl.h>

#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/open_file.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A regular file that is open for reading, and its state when it was opened.
struct opened_file {
  open_file file;
  file_state state;

  /// Opens a file. Throws std::system_error, whose what() is "PATH: REASON", or std::runtime_error if it isn't a regular
  /// file.
  static opened_file at(const std::string& path);

  /// The state of a file that isn't opened. Throws the same.
  static file_state state_of(const std::string& path);

 private:
  static file_state checked(const struct stat& status, const std::string& path);

  [[noreturn]] static void fail(int reason, const std::string& path);
};

/// Opens files at their first use and closes the least recently used one. Any thread may use it.
class file_cache {
 public:
  explicit file_cache(std::size_t max_files) : max_files_(max_files) {}

  file_cache(const file_cache&) = delete;

  /// The file of `owner`, opened if it isn't open. Throws as opened_file::at() does; the next call tries again.
  std::shared_ptr<const opened_file> get(const void* owner, const std::string& path);

  /// Closes the file of `owner`, which is not needed any more.
  void forget(const void* owner) noexcept;

 private:
  struct entry {
    const void* owner;
    std::shared_ptr<const opened_file> file;
  };

  std::shared_ptr<const opened_file> find(const void* owner);

  const std::size_t max_files_;
  std::mutex mutex_;
  std::list<entry> files_; // the most recently used one first
  std::unordered_map<const void*, std::list<entry>::iterator> by_owner_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/source/detail/file_cache.ipp>
#endif
