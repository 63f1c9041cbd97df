// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/detail/open_file.hpp>

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

} // namespace feedline::inline FEEDLINE_ABI::detail
