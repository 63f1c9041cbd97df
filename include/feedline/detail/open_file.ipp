// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/detail/open_file.hpp>

#include <cstdio>
#include <memory>
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
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), std::fclose);
  if (!file) fail();
  std::vector<std::byte> bytes;

  struct stat status {};

  std::size_t step = 1 << 16;
  if (::fstat(::fileno(file.get()), &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0)
    step = static_cast<std::size_t>(status.st_size) + 1; // so that the first call sees the end
  for (std::size_t size = 0;;) {
    bytes.resize(size + step);
    const std::size_t got = std::fread(bytes.data() + size, 1, step, file.get());
    size += got;
    if (got < step) {
      bytes.resize(size);
      if (std::ferror(file.get())) fail();
      return bytes;
    }
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
