// SPDX-License-Identifier: MIT
#pragma once
// The folder of a cache of parts, which several processes may share.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
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
#include <feedline/source/detail/cached_part.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Any thread may use it.
class cache_folder {
 public:
  /// Makes the folder if it doesn't exist. Throws std::system_error if that fails.
  cache_folder(std::string path, std::uint64_t limit) : path_(std::move(path)), limit_(limit) {
    make_directories(path_);

    struct stat status {};

    if (::stat(path_.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
      throw std::system_error(ENOTDIR, std::generic_category(), readable(path_));
    const std::lock_guard lock(mutex_);
    trim(true);
  }

  std::string part_path(const part_key& k) const { return path_ + "/" + k.file_name() + std::string(part); }

  std::string draft_path(const part_key& k) const { return path_ + "/" + k.file_name() + std::string(draft); }

  bool has_room_for(std::size_t bytes) const noexcept {
    return bytes < limit_ && limit_ - bytes >= sizeof(part_record);
  }

  /// A file was used: others leave before it.
  static void used(const std::string& path) noexcept { ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }

  /// A file was added. The least recently used ones leave if there are too many bytes.
  void added(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    bytes_ += bytes;
    unchecked_ += bytes;
    // Other processes add files too.
    if (bytes_ > limit_ || unchecked_ > limit_ / 16) trim(false);
  }

  /// Removes a file of that many bytes. False if that isn't possible.
  bool remove(const std::string& path, std::size_t bytes) {
    if (::unlink(path.c_str()) != 0) return errno == ENOENT;
    const std::lock_guard lock(mutex_);
    bytes_ -= std::min<std::uint64_t>(bytes_, bytes);
    return true;
  }

  /// As far as this process knows.
  std::uint64_t bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  static constexpr std::string_view part = ".part", draft = ".draft";

  struct file {
    std::int64_t used_ns;
    std::uint64_t bytes;
    std::string path;
  };

  // Measures the folder and removes files until they fit. With `all`, also drafts that nobody writes.
  void trim(bool all) {
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

  const std::string path_;
  const std::uint64_t limit_;
  mutable std::mutex mutex_; // guards the members below
  std::uint64_t bytes_ = 0;
  std::uint64_t unchecked_ = 0; // bytes added since the folder was measured
};

} // namespace feedline::inline FEEDLINE_ABI::detail
