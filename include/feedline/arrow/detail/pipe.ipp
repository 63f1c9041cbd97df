// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/arrow/detail/pipe.hpp>

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
