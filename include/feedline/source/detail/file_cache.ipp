// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/detail/file_cache.hpp>

#include <stdexcept>
#include <system_error>
#include <utility>

#include <sys/stat.h>

#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE opened_file opened_file::at(const std::string& path) {
  state_of(path); // checked first, because opening a device can have effects
  // Without O_NONBLOCK, opening a named pipe would wait for its writer.
  open_file file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));

  struct stat status {};

  if (!file || ::fstat(file.number(), &status) != 0) fail(errno, path);
  return {std::move(file), checked(status, path)};
}

FEEDLINE_INLINE file_state opened_file::state_of(const std::string& path) {
  struct stat status {};

  if (::stat(path.c_str(), &status) != 0) fail(errno, path);
  return checked(status, path);
}

FEEDLINE_INLINE file_state opened_file::checked(const struct stat& status, const std::string& path) {
  if (S_ISDIR(status.st_mode)) fail(EISDIR, path);
  if (!S_ISREG(status.st_mode)) throw std::runtime_error(readable(path) + ": is not a regular file");
  return file_state(status);
}

FEEDLINE_INLINE void opened_file::fail(int reason, const std::string& path) {
  throw std::system_error(reason, std::generic_category(), readable(path));
}

FEEDLINE_INLINE std::shared_ptr<const opened_file> file_cache::get(const void* owner,
                                                                   const std::string& path) {
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

FEEDLINE_INLINE void file_cache::forget(const void* owner) noexcept {
  std::shared_ptr<const opened_file> closed;
  const std::lock_guard lock(mutex_);
  const auto found = by_owner_.find(owner);
  if (found == by_owner_.end()) return;
  closed = std::move(found->second->file);
  files_.erase(found->second);
  by_owner_.erase(found);
}

FEEDLINE_INLINE std::shared_ptr<const opened_file> file_cache::find(const void* owner) {
  const std::lock_guard lock(mutex_);
  const auto found = by_owner_.find(owner);
  if (found == by_owner_.end()) return nullptr;
  files_.splice(files_.begin(), files_, found->second);
  return found->second->file;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
