// SPDX-License-Identifier: MIT
#pragma once
// Files that are read and written at offsets and can be locked.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// While it lives, a write of this thread beyond the largest allowed file size fails instead of ending the
/// process (SIGXFSZ).
class file_size_guard {
 public:
  file_size_guard() noexcept {
    ::sigemptyset(&signal_);
    ::sigaddset(&signal_, SIGXFSZ);
    was_pending_ = is_pending();
    ::pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }

  file_size_guard(const file_size_guard&) = delete;

  ~file_size_guard() {
    int number = 0;
    if (!was_pending_ && is_pending()) ::sigwait(&signal_, &number);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  static bool is_pending() noexcept {
    ::sigset_t pending;
    return ::sigpending(&pending) == 0 && ::sigismember(&pending, SIGXFSZ) == 1;
  }

  ::sigset_t signal_;
  ::sigset_t before_;
  bool was_pending_ = false;
};

/// An open file; the destructor closes it.
class open_file {
 public:
  explicit open_file(int number = -1) noexcept : number_(number) {}

  open_file(open_file&& other) noexcept : number_(std::exchange(other.number_, -1)) {}

  open_file& operator=(open_file&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  ~open_file() {
    if (number_ >= 0) ::close(number_);
  }

  int number() const noexcept { return number_; }

  explicit operator bool() const noexcept { return number_ >= 0; }

  /// The file's size; 0 if it is unknown.
  std::uint64_t size() const noexcept {
    struct stat status {};

    return ::fstat(number_, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
  }

  /// Reads at most `count` bytes at that offset. Returns how many bytes it read.
  std::size_t read(void* to, std::size_t count, std::uint64_t from) const noexcept;

  /// Returns 0 or an errno value.
  int write(const void* bytes, std::size_t count, std::uint64_t at) const noexcept;

  /// Returns 0 or an errno value.
  int resize(std::uint64_t size) const noexcept {
    const file_size_guard guard;
    while (::ftruncate(number_, static_cast<::off_t>(size)) != 0)
      if (errno != EINTR) return errno;
    return 0;
  }

  /// Locks the file against others that have opened it. With `wait` it waits for the lock; without, it returns false at
  /// once, with errno EWOULDBLOCK, if another one holds it. Also false where the file system has no locks.
  bool lock(bool wait) const noexcept {
    while (::flock(number_, wait ? LOCK_EX : LOCK_EX | LOCK_NB) != 0)
      if (errno != EINTR) return false;
    return true;
  }

  void unlock() const noexcept { ::flock(number_, LOCK_UN); }

 private:
  int number_;
};

/// Reads a whole file, which may be a pipe. Throws std::system_error, whose what() is "PATH: REASON".
std::vector<std::byte> contents_of_file(const std::string& path);

/// Makes a folder, and those that it is in, unless they exist. Throws std::system_error that names the folder.
void make_directories(const std::string& path);

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_DETAIL)
#include <system_error>

#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::size_t open_file::read(void* to, std::size_t count, std::uint64_t from) const noexcept {
  std::size_t got = 0;
  while (got < count) {
    const ::ssize_t n =
        ::pread(number_, static_cast<char*>(to) + got, count - got, static_cast<::off_t>(from + got));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    got += static_cast<std::size_t>(n);
  }
  return got;
}

FEEDLINE_INLINE int open_file::write(const void* bytes, std::size_t count, std::uint64_t at) const noexcept {
  const file_size_guard guard;
  for (std::size_t put = 0; put < count;) {
    const ::ssize_t n =
        ::pwrite(number_, static_cast<const char*>(bytes) + put, count - put, static_cast<::off_t>(at + put));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : ENOSPC;
    put += static_cast<std::size_t>(n);
  }
  return 0;
}

FEEDLINE_INLINE std::vector<std::byte> contents_of_file(const std::string& path) {
  const auto fail = [&]() { throw std::system_error(errno, std::generic_category(), readable(path)); };
  int number; // opening a pipe waits for its writer
  while ((number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC)) < 0)
    if (errno != EINTR) fail();
  const open_file file(number);
  const std::uint64_t known = file.size(); // + 1, so that the first call may see the end
  std::vector<std::byte> bytes(known > 0 ? static_cast<std::size_t>(known) + 1 : std::size_t{1} << 16);
  for (std::size_t size = 0;;) {
    if (size == bytes.size()) bytes.resize(2 * size);
    const ::ssize_t got = ::read(number, bytes.data() + size, bytes.size() - size);
    if (got < 0 && errno != EINTR) fail();
    if (got > 0) size += static_cast<std::size_t>(got);
    if (got != 0) continue;
    bytes.resize(size);
    return bytes;
  }
}

FEEDLINE_INLINE void make_directories(const std::string& path) {
  for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (::mkdir(part.c_str(), 0777) != 0 && errno != EEXIST && slash == std::string::npos)
      throw std::system_error(errno, std::generic_category(), readable(path));
    if (slash == std::string::npos) return;
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
