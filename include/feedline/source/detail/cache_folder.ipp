// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/detail/cache_folder.hpp>

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <feedline/detail/file_draft.hpp>
#include <feedline/detail/open_file.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE cache_folder::cache_folder(std::string path, std::uint64_t limit)
    : path_(std::move(path)), limit_(limit) {
  make_directories(path_);

  struct stat status {};

  if (::stat(path_.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
    throw std::system_error(ENOTDIR, std::generic_category(), readable(path_));
  const std::lock_guard lock(mutex_);
  trim(true);
}

FEEDLINE_INLINE std::string cache_folder::part_path(const part_key& k) const {
  return path_ + "/" + k.file_name() + std::string(part);
}

FEEDLINE_INLINE std::string cache_folder::draft_path(const part_key& k) const {
  return path_ + "/" + k.file_name() + std::string(draft);
}

FEEDLINE_INLINE void cache_folder::used(const std::string& path) noexcept {
  ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
}

FEEDLINE_INLINE void cache_folder::added(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  bytes_ += bytes;
  unchecked_ += bytes;
  // Other processes add files too.
  if (bytes_ > limit_ || unchecked_ > limit_ / 16) trim(false);
}

FEEDLINE_INLINE bool cache_folder::remove(const std::string& path, std::size_t bytes) {
  if (::unlink(path.c_str()) != 0) return errno == ENOENT;
  const std::lock_guard lock(mutex_);
  bytes_ -= std::min<std::uint64_t>(bytes_, bytes);
  return true;
}

FEEDLINE_INLINE std::uint64_t cache_folder::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

FEEDLINE_INLINE void cache_folder::trim(bool all) {
  std::vector<file> files;
  bytes_ = unchecked_ = 0;
  if (::DIR* const folder = ::opendir(path_.c_str())) {
    while (const ::dirent* const entry = ::readdir(folder)) {
      const std::string_view name = entry->d_name;
      const std::string path = path_ + "/" + entry->d_name;

      struct stat status {};

      if (all && name.ends_with(draft)) {
        const open_file found(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
        if (found) file_draft::remove_if_abandoned(found, path);
      }
      if (!name.ends_with(part) || ::stat(path.c_str(), &status) != 0) continue;
      const auto size = static_cast<std::uint64_t>(status.st_size);
      files.push_back(
          {std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec, size, path});
      bytes_ += size;
    }
    ::closedir(folder);
  }
  if (bytes_ <= limit_) return;
  std::sort(files.begin(), files.end(), [](const file& a, const file& b) { return a.used_ns < b.used_ns; });
  for (const file& oldest : files) {
    if (bytes_ <= limit_ - limit_ / 16) break; // some room at once: the next files don't measure it again
    if (::unlink(oldest.path.c_str()) == 0 || errno == ENOENT) bytes_ -= oldest.bytes;
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
