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

#ifndef FEEDLINE_COMPILED
#include <feedline/arrow/detail/pipe.ipp>
#endif
