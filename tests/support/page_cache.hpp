// SPDX-License-Identifier: MIT
#pragma once
// Controls and observes the page cache for parts of files. Linux only.
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <feedline/detail/kernel.hpp>
#include <feedline/detail/open_file.hpp>

namespace feedline::test {

/// Drops a file from the page cache; it must not be mapped.
inline void forget_file(const std::string& path) {
  const detail::open_file file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ::fsync(file.number());
  ::posix_fadvise(file.number(), 0, 0, POSIX_FADV_DONTNEED);
}

/// Whether the page at an offset is in the page cache. Doesn't read it.
inline bool is_in_memory(const std::string& path, std::size_t offset) {
  const detail::open_file file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  constexpr std::size_t page = 4096;
  void* const memory =
      ::mmap(nullptr, page, PROT_READ, MAP_SHARED, file.number(), static_cast<::off_t>(offset / page * page));
  if (memory == MAP_FAILED) return false;
  unsigned char state = 0;
  const bool known = ::mincore(memory, page, &state) == 0;
  ::munmap(memory, page);
  return known && (state & 1) != 0;
}

/// Waits for the page at an offset to be read ahead, and calls `announce` meanwhile; returns whether it was.
template <class Announce>
bool comes_into_memory(const std::string& path, std::size_t offset, Announce announce) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!is_in_memory(path, offset)) {
    announce();
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

inline bool comes_into_memory(const std::string& path, std::size_t offset) {
  return comes_into_memory(path, offset, [] {});
}

/// Whether this file system drops a file from the page cache on request and reads ahead on request.
inline bool file_system_reads_ahead(const std::string& path, std::size_t offset) {
  forget_file(path);
  if (is_in_memory(path, offset)) return false;
  {
    const detail::open_file file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    detail::read_soon(file.number(), file.size());
  }
  if (!comes_into_memory(path, offset)) return false;
  forget_file(path);
  return !is_in_memory(path, offset);
}

} // namespace feedline::test
