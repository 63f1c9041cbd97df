// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/detail/index_file.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <feedline/core/random.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/open_file.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void throw_if_stopped(const std::stop_token& stop) {
  if (stop.stop_requested()) throw std::runtime_error("the index isn't complete: the run was stopped");
}

FEEDLINE_INLINE std::uint64_t checksum_of(std::span<const std::uint64_t> words) noexcept {
  std::uint64_t sum = words.size();
  for (const std::uint64_t word : words) sum = mix((sum ^ word) + 0x9e3779b97f4a7c15);
  return sum;
}

FEEDLINE_INLINE std::vector<std::uint64_t> words_of_index(std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> words(bytes.size() % 8 == 0 ? bytes.size() / 8 : 0);
  if (words.empty()) return {};
  std::memcpy(words.data(), bytes.data(), bytes.size());
  const std::uint64_t checksum = words.back();
  words.pop_back();
  if (checksum_of(words) != checksum) return {};
  return words;
}

FEEDLINE_INLINE std::vector<std::uint64_t> read_index_file(const std::string& path) {
  try {
    return words_of_index(mapped_file(path).bytes());
  } catch (const std::runtime_error&) {
    return {};
  }
}

FEEDLINE_INLINE void write_index_file(const std::string& path, std::string_view kind,
                                      std::span<const std::uint64_t> words) {
  const auto may_write = [&] {
    struct stat status {};

    if (::lstat(path.c_str(), &status) != 0) return errno == ENOENT;
    if (!S_ISREG(status.st_mode)) return false;
    const open_file file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    std::array<char, 8> begin{};
    return file && kind.starts_with({begin.data(), file.read(begin.data(), kind.size(), 0)});
  };
  if (!may_write()) return;
  // Several processes may write the same index.
  static std::atomic<unsigned> written{0};
  const std::string draft = path + "." + std::to_string(::getpid()) + "-" + std::to_string(written++);
  const open_file file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file) return;
  const std::uint64_t checksum = checksum_of(words), size = words.size_bytes();
  if (file.write(words.data(), words.size_bytes(), 0) != 0 ||
      file.write(&checksum, sizeof checksum, size) != 0 || ::rename(draft.c_str(), path.c_str()) != 0)
    ::unlink(draft.c_str());
}

} // namespace feedline::inline FEEDLINE_ABI::detail
