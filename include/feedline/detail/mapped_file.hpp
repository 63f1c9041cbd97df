// SPDX-License-Identifier: MIT
#pragma once
// A whole file as read-only memory.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/detail/file_state.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class file_memory;

/// The name of a file or an object, and what identifies its version.
struct named_version {
  std::string path; ///< for messages
  std::uint64_t bytes = 0;
  std::uint64_t version = 0; ///< of a file: when it was modified; of an object: also a hash of its whole name

  bool operator==(const named_version&) const = default;
};

/// The bytes of a regular file, as long as the object lives. Deleting or replacing the file meanwhile is
/// harmless. Shortening it in place is not: as with all mappings, touching the lost part ends the process with
/// SIGBUS.
class mapped_file {
 public:
  /// Throws std::system_error, whose what() is "PATH: REASON", or std::runtime_error if it is not a regular
  /// file.
  explicit mapped_file(std::string path, sharing with = sharing::all);

  std::span<const std::byte> bytes() const noexcept { return bytes_; }

  const std::string& path() const noexcept { return version_.path; }

  const named_version& version() const noexcept { return version_; }

  /// Whether keeping it takes no memory of the process.
  bool is_mapped() const noexcept;

  /// When the file was last written, in nanoseconds since 1970.
  std::int64_t modified_ns() const noexcept;

  /// Whether the system has the byte at `offset`, and so probably those near it, in memory. False if it doesn't say.
  bool is_in_memory(std::uint64_t offset) const noexcept;

  /// Makes the system start to read these bytes if they aren't in memory yet. Returns at once.
  void will_need(std::uint64_t offset, std::uint64_t count) const noexcept;

  /// The same for few bytes among others: nothing if they are in memory, or the system doesn't say. Returns whether it asked
  /// the system to read them.
  bool will_need_few(std::uint64_t offset, std::uint64_t count) const noexcept;

  /// Informs the system that reads are not sequential, so that it doesn't read ahead. This affects all who
  /// share the mapping.
  void expect_jumps() const noexcept;

 private:
  std::shared_ptr<const file_memory> memory_;
  std::span<const std::byte> bytes_;
  named_version version_;
};

/// Maps files on first use and keeps up to `most` of them mapped. Any thread may use it.
class lazy_maps {
 public:
  static constexpr std::size_t most = 1024; // at once

  explicit lazy_maps(std::vector<std::string> names);

  /// Throws as mapped_file does; the next call tries again.
  std::shared_ptr<const mapped_file> at(std::size_t number);

  /// mapped_file::will_need_few() of a file; false if it can't be mapped, which at() throws.
  bool will_need_few(std::size_t number, std::uint64_t offset, std::uint64_t count) noexcept;

 private:
  std::vector<std::string> names_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const mapped_file>> files_;
  std::deque<std::size_t> mapped_; // the oldest first
};

/// Announces reads of a file to the system in steps, as the reader advances. Steps that are in memory aren't announced:
/// that would take as long as reading them.
struct announced_file {
  std::shared_ptr<const mapped_file> file;
  std::uint64_t bytes = 0;

  static constexpr std::uint64_t step = std::uint64_t{1} << 20;

  /// The bytes up to `end` will be needed.
  void reach(std::uint64_t end);
};

/// The part of a path after the last slash.
std::string_view last_name(std::string_view path) noexcept;

/// The hash of a file's contents, see fingerprint_of_file().
class content_fingerprint {
 public:
  static constexpr std::size_t block = 4096;

  /// Adds the first block, and the last one if the file is larger than a block.
  void add(std::span<const std::byte> bytes) noexcept;

  std::uint64_t of_size(std::uint64_t size) const noexcept { return hash_ ^ (size * 0x9e3779b97f4a7c15); }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325; // FNV-1a, as in stable_hash()
};

/// A hash of a file's size, its first 4 KB and its last 4 KB: two versions of a file rarely have the same. 0 if
/// the file can't be read.
std::uint64_t fingerprint_of_file(const std::string& path) noexcept;

/// The file's size in bytes; nothing if it is not a regular file. Throws std::system_error, whose what() is
/// "PATH: REASON".
std::optional<std::uint64_t> size_of_regular_file(const std::string& path);

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_DETAIL)
#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <feedline/detail/file_memory.hpp>
#include <feedline/detail/kernel.hpp>
#include <feedline/detail/open_file.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE mapped_file::mapped_file(std::string path, sharing with)
    : memory_(file_memory::of(path, with)),
      bytes_(memory_->bytes()),
      version_{std::move(path), bytes_.size(), static_cast<std::uint64_t>(modified_ns())} {}

FEEDLINE_INLINE bool mapped_file::is_mapped() const noexcept { return memory_->is_mapped(); }

FEEDLINE_INLINE std::int64_t mapped_file::modified_ns() const noexcept {
  return memory_->state().modified_ns;
}

FEEDLINE_INLINE bool mapped_file::is_in_memory(std::uint64_t offset) const noexcept {
  return memory_->tells_pages() && offset < bytes().size() && is_page_in_memory(bytes().data() + offset);
}

FEEDLINE_INLINE void mapped_file::will_need(std::uint64_t offset, std::uint64_t count) const noexcept {
  const std::uint64_t begin = std::min<std::uint64_t>(offset, bytes().size());
  const std::uint64_t end = std::min<std::uint64_t>(offset + count, bytes().size());
  if (begin < end && memory_->is_mapped()) read_soon(bytes().data() + begin, bytes().data() + end);
}

FEEDLINE_INLINE bool mapped_file::will_need_few(std::uint64_t offset, std::uint64_t count) const noexcept {
  if (!memory_->tells_pages() || is_in_memory(offset)) return false;
  will_need(offset, count);
  return true;
}

FEEDLINE_INLINE void mapped_file::expect_jumps() const noexcept {
  if (memory_->is_mapped())
    ::posix_madvise(const_cast<std::byte*>(bytes().data()), bytes().size(), POSIX_MADV_RANDOM);
}

FEEDLINE_INLINE lazy_maps::lazy_maps(std::vector<std::string> names)
    : names_(std::move(names)), files_(names_.size()) {}

FEEDLINE_INLINE std::shared_ptr<const mapped_file> lazy_maps::at(std::size_t number) {
  {
    const std::lock_guard lock(mutex_);
    if (files_[number]) return files_[number];
  }
  auto file = std::make_shared<const mapped_file>(names_[number]);
  std::shared_ptr<const mapped_file> oldest; // released without the lock
  const std::lock_guard lock(mutex_);
  if (files_[number]) return files_[number];
  if (mapped_.size() == most) {
    oldest = std::move(files_[mapped_.front()]);
    mapped_.pop_front();
  }
  mapped_.push_back(number);
  return files_[number] = std::move(file);
}

FEEDLINE_INLINE bool lazy_maps::will_need_few(std::size_t number, std::uint64_t offset,
                                              std::uint64_t count) noexcept {
  try {
    return at(number)->will_need_few(offset, count);
  } catch (...) {
    return false;
  }
}

FEEDLINE_INLINE void announced_file::reach(std::uint64_t end) {
  constexpr std::uint64_t request = step / 4; // systems truncate longer ones
  const std::uint64_t size = file->bytes().size();
  for (; bytes < std::min(end, size); bytes += step) {
    // One byte stands for the step, at another distance in each: the headers of a format, which a reader may have looked at
    // first, could otherwise stand for the whole file.
    const std::uint64_t looked_at = (bytes / 7 + step / 2) % std::min(step, size - bytes);
    if (file->is_in_memory(bytes + looked_at)) continue;
    for (std::uint64_t part = 0; part < step; part += request) file->will_need(bytes + part, request);
  }
}

FEEDLINE_INLINE std::string_view last_name(std::string_view path) noexcept {
  return path.substr(path.rfind('/') + 1);
}

FEEDLINE_INLINE void content_fingerprint::add(std::span<const std::byte> bytes) noexcept {
  for (const std::byte b : bytes) hash_ = (hash_ ^ static_cast<std::uint8_t>(b)) * 0x100000001b3;
}

FEEDLINE_INLINE std::uint64_t fingerprint_of_file(const std::string& path) noexcept {
  struct stat status {};

  // Opening a named pipe would look like a reader to a waiting writer.
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  const open_file file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (::fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  content_fingerprint contents;
  std::byte block[content_fingerprint::block];
  const auto add = [&](std::uint64_t begin) { contents.add({block, file.read(block, sizeof block, begin)}); };
  add(0);
  if (size > sizeof block) add(size - sizeof block);
  return contents.of_size(size);
}

FEEDLINE_INLINE std::optional<std::uint64_t> size_of_regular_file(const std::string& path) {
  struct stat status {};

  if (::stat(path.c_str(), &status) != 0)
    throw std::system_error(errno, std::generic_category(), readable(path));
  if (!S_ISREG(status.st_mode)) return {};
  return static_cast<std::uint64_t>(status.st_size);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
