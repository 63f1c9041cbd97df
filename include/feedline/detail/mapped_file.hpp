// SPDX-License-Identifier: MIT
#pragma once
// A whole file as read-only memory.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace feedline::detail {

/// Maps a regular file for as long as the object lives. Deleting or replacing the file meanwhile is harmless;
/// shortening it in place is not: touching the lost part ends the process with SIGBUS, as mappings do
/// everywhere.
class mapped_file {
 public:
  /// Throws std::system_error, whose what() is "PATH: REASON".
  explicit mapped_file(std::string path) : path_(std::move(path)) {
    // Without O_NONBLOCK opening a named pipe would wait for its writer.
    const descriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};

    struct stat status {};

    if (file.number < 0 || ::fstat(file.number, &status) != 0) fail(errno);
    if (S_ISDIR(status.st_mode)) fail(EISDIR);
    if (!S_ISREG(status.st_mode)) fail(ENODEV);
    modified_ns_ = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
    const auto size = static_cast<std::uint64_t>(status.st_size);
    if (size > std::numeric_limits<std::size_t>::max()) fail(EFBIG);
    if (size == 0) return; // an empty mapping is an error to mmap
    void* const memory =
        ::mmap(nullptr, static_cast<std::size_t>(size), PROT_READ, MAP_PRIVATE, file.number, 0);
    if (memory == MAP_FAILED) fail(errno);
    bytes_ = {static_cast<const std::byte*>(memory), static_cast<std::size_t>(size)};
  }

  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;

  ~mapped_file() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }

  std::span<const std::byte> bytes() const noexcept { return bytes_; }

  const std::string& path() const noexcept { return path_; }

  /// When the file was last written, in nanoseconds since 1970.
  std::int64_t modified_ns() const noexcept { return modified_ns_; }

  /// Has the system begin to read these bytes, where they aren't in memory yet. Returns at once.
  void will_need(std::uint64_t offset, std::uint64_t count) const noexcept {
    constexpr std::uint64_t page = 4096; // or a multiple of it: then nothing happens
    const std::uint64_t begin = std::min<std::uint64_t>(offset, bytes_.size()) / page * page;
    const std::uint64_t end = std::min<std::uint64_t>(offset + count, bytes_.size());
    if (begin < end)
      ::madvise(const_cast<std::byte*>(bytes_.data() + begin), static_cast<std::size_t>(end - begin),
                MADV_WILLNEED);
  }

  /// Tells the system that reads will jump: then it doesn't read ahead what nobody asks for.
  void expect_jumps() const noexcept {
    if (!bytes_.empty()) ::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_RANDOM);
  }

 private:
  struct descriptor {
    int number;

    ~descriptor() {
      if (number >= 0) ::close(number);
    }
  };

  [[noreturn]] void fail(int reason) const {
    throw std::system_error(reason, std::generic_category(), path_);
  }

  std::string path_;
  std::span<const std::byte> bytes_;
  std::int64_t modified_ns_ = 0;
};

/// Files that are mapped when they are first asked for, and then stay so. From any thread.
class lazy_maps {
 public:
  explicit lazy_maps(std::vector<std::string> names) : names_(std::move(names)), files_(names_.size()) {}

  /// Throws as mapped_file does; the next call tries again.
  std::shared_ptr<const mapped_file> at(std::size_t number) {
    const std::lock_guard lock(mutex_);
    auto& file = files_[number];
    if (!file) file = std::make_shared<const mapped_file>(names_[number]);
    return file;
  }

 private:
  std::vector<std::string> names_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const mapped_file>> files_;
};

/// How far the system was told to read a file.
struct announced_file {
  std::shared_ptr<const mapped_file> file;
  std::uint64_t bytes = 0;

  /// It will be needed up to there.
  void reach(std::uint64_t end) {
    constexpr std::uint64_t step = std::uint64_t{256} << 10; // systems cut short longer requests
    for (; bytes < std::min<std::uint64_t>(end, file->bytes().size()); bytes += step)
      file->will_need(bytes, step);
  }
};

/// What is behind the last slash.
inline std::string_view last_name(std::string_view path) noexcept { return path.substr(path.rfind('/') + 1); }

/// A hash of a file's size, its first 4 KB and its last: two files that were written at different times hardly
/// have the same. 0 if it can't be read.
inline std::uint64_t fingerprint_of_file(const std::string& path) noexcept {
  const int number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (number < 0) return 0;
  std::uint64_t hash = 0xcbf29ce484222325; // FNV-1a, as stable_hash() has it

  struct stat status {};

  if (::fstat(number, &status) == 0 && S_ISREG(status.st_mode)) {
    unsigned char block[4096];
    const auto add = [&](::off_t begin) {
      const ::ssize_t got = ::pread(number, block, sizeof block, begin);
      for (::ssize_t i = 0; i < got; ++i) hash = (hash ^ block[i]) * 0x100000001b3;
    };
    add(0);
    if (status.st_size > ::off_t{sizeof block}) add(status.st_size - ::off_t{sizeof block});
    hash ^= static_cast<std::uint64_t>(status.st_size) * 0x9e3779b97f4a7c15;
  }
  ::close(number);
  return hash;
}

/// In bytes. Throws std::system_error, whose what() is "PATH: REASON".
inline std::uint64_t file_size(const std::string& path) {
  struct stat status {};

  if (::stat(path.c_str(), &status) != 0) throw std::system_error(errno, std::generic_category(), path);
  return static_cast<std::uint64_t>(status.st_size);
}

} // namespace feedline::detail
