// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/detail/open_file.hpp>

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
