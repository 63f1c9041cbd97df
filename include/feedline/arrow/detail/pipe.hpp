// SPDX-License-Identifier: MIT
#pragma once
// Reads files that can't be mapped: named pipes, /dev/stdin.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <poll.h>
#include <unistd.h>

#include <feedline/detail/open_file.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Whether a file can only be read from beginning to end. False for a missing file, so that opening it fails
/// later.
bool is_pipe(const std::string& path) noexcept;

/// Thrown by reads when the run is stopped.
struct pipe_stopped {};

/// A pipe that one thread reads. Its waits end when the run is stopped.
class pipe {
 public:
  /// Throws arrow_error. Doesn't wait for a writer.
  pipe(const std::string& path, const std::stop_token& stop);

  pipe(const pipe&) = delete;
  pipe& operator=(const pipe&) = delete;

  /// Reads `count` bytes and returns their number, which is smaller only at the end of the pipe. Throws
  /// arrow_error, or pipe_stopped.
  std::size_t read(std::byte* to, std::size_t count) {
    std::size_t got = 0;
    while (got < count) {
      wait();
      const ::ssize_t n = ::read(file_.number(), to + got, count - got);
      if (n == 0) break;
      if (n > 0) got += static_cast<std::size_t>(n);
      else if (errno != EINTR && errno != EAGAIN) fail(errno);
    }
    return got;
  }

  /// Appends at most `count` bytes and returns their number, which is smaller at the end of the pipe.
  /// Allocates memory only as bytes arrive.
  std::size_t append(std::vector<std::byte>& to, std::uint64_t count);

  /// Reads to the end, so that the writer isn't blocked, and returns the number of bytes.
  std::uint64_t drain();

 private:
  struct wake {
    void operator()() const noexcept {
      const std::uint64_t one = 1;
      if (::write(number, &one, sizeof one) < 0) return; // already woken
    }

    int number;
  };

  // Without it a read before a writer has opened the pipe would look like the end.
  void wait();

  [[noreturn]] void fail(int reason) const;

  std::string path_;
  open_file file_;
  open_file woken_;
  std::optional<std::stop_callback<wake>> on_stop_; // destroyed before the file that it writes to
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_ARROW)
#include <algorithm>
#include <system_error>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include <feedline/arrow/arrow_error.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE bool is_pipe(const std::string& path) noexcept {
  struct stat status {};

  return ::stat(path.c_str(), &status) == 0 &&
         (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode) || S_ISSOCK(status.st_mode));
}

FEEDLINE_INLINE pipe::pipe(const std::string& path, const std::stop_token& stop)
    : path_(path),
      file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)),
      woken_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!file_ || !woken_) fail(errno);
  on_stop_.emplace(stop, wake{woken_.number()});
}

FEEDLINE_INLINE std::size_t pipe::append(std::vector<std::byte>& to, std::uint64_t count) {
  constexpr std::uint64_t step = std::uint64_t{16} << 20;
  std::size_t got = 0;
  while (got < count) {
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(count - got, step));
    const std::size_t size = to.size();
    to.resize(size + part);
    const std::size_t n = read(to.data() + size, part);
    to.resize(size + n);
    got += n;
    if (n < part) break;
  }
  return got;
}

FEEDLINE_INLINE std::uint64_t pipe::drain() {
  std::vector<std::byte> rest(1 << 16);
  for (std::uint64_t sum = 0;;) {
    const std::size_t got = read(rest.data(), rest.size());
    sum += got;
    if (got < rest.size()) return sum;
  }
}

FEEDLINE_INLINE void pipe::wait() {
  ::pollfd files[2]{{file_.number(), POLLIN, 0}, {woken_.number(), POLLIN, 0}};
  while (::poll(files, 2, -1) < 0)
    if (errno != EINTR) fail(errno);
  if (files[1].revents != 0) throw pipe_stopped();
}

FEEDLINE_INLINE void pipe::fail(int reason) const {
  throw arrow_error(readable(path_) + ": " + std::generic_category().message(reason));
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
