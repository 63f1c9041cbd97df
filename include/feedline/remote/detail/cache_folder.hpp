// SPDX-License-Identifier: MIT
#pragma once
// The folder of a cache of parts, which several processes may share.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
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
#include <feedline/detail/hidden_name.hpp>
#include <feedline/detail/kernel.hpp>
#include <feedline/detail/open_file.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/remote/detail/cached_part.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Any thread may use it.
class cache_folder {
 public:
  /// Makes the folder if it doesn't exist. Throws std::system_error if that fails, and std::invalid_argument if others have
  /// files in it.
  cache_folder(std::string path, std::uint64_t limit) : path_(std::move(path)), limit_(limit) {
    make_directories(path_);

    struct stat status {};

    if (::stat(path_.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
      throw std::system_error(ENOTDIR, std::generic_category(), readable(path_));
    claim();
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
  static constexpr std::string_view part = ".part", draft = ".draft", mark = "feedline-shard-cache";

  struct file {
    std::int64_t used_ns;
    std::uint64_t bytes;
    std::string path;
  };

  // Calls f with each name in the folder.
  template <class F>
  void for_each_name(F f) const {
    const std::unique_ptr<::DIR, int (*)(::DIR*)> folder(::opendir(path_.c_str()), ::closedir);
    if (!folder) return;
    while (const ::dirent* const entry = ::readdir(folder.get())) f(std::string_view(entry->d_name));
  }

  // Files leave a cache. So that they are never somebody else's, its folder has a mark, which only a folder without other
  // files gets.
  void claim() const {
    const std::string path = path_ + "/" + std::string(mark);
    std::string other;
    for_each_name([&](std::string_view name) {
      const std::string_view ending = part_key::ending_of(name); // caches had no mark once
      const bool is_own = ending == part || ending == draft || name.starts_with("feedline-");
      if (!is_own && !is_hidden(name) && name != "." && name != ".." && name != "lost+found") other = name;
    });
    if (::access(path.c_str(), F_OK) == 0) return; // now, as another process may have made it meanwhile
    if (!other.empty())
      throw std::invalid_argument("feedline::cached: " + in_backticks(path_) +
                                  " is no folder of a cache, and has other files, such as " +
                                  in_backticks(other) + ": name a folder that is empty or doesn't exist");
    const open_file made(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    constexpr std::string_view text = "This folder is a cache: feedline removes parts in it.\n";
    if (made) made.write(text.data(), text.size(), 0); // a folder that can't be written is a cache, too
  }

  // Measures the folder and removes files until they fit. With `all`, also drafts that nobody writes.
  void trim(bool all) {
    std::vector<file> files;
    bytes_ = unchecked_ = 0;
    for_each_name([&](std::string_view name) {
      const std::string path = path_ + "/" + std::string(name);
      const std::string_view ending = part_key::ending_of(name);

      struct stat status {};

      if (all && ending == draft) {
        const open_file found(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
        if (found) file_draft::remove_if_abandoned(found, path);
      }
      if (ending != part || ::stat(path.c_str(), &status) != 0) return;
      const auto size = static_cast<std::uint64_t>(status.st_size);
      files.push_back({modified_ns_of(status), size, path});
      bytes_ += size;
    });
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
