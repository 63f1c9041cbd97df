// SPDX-License-Identifier: MIT
#pragma once
// Files that keep the index of a data file: words of 64 bits in the machine's byte order, the last of which is a checksum
// of the others.
#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// For those who make an index for a run: throws std::runtime_error if the run was stopped.
void throw_if_stopped(const std::stop_token& stop);

std::uint64_t checksum_of(std::span<const std::uint64_t> words) noexcept;

/// The words of an index without the checksum; none if they are incomplete or damaged.
std::vector<std::uint64_t> words_of_index(std::span<const std::byte> bytes);

/// The same for a file; none if it is missing.
std::vector<std::uint64_t> read_index_file(const std::string& path);

/// Writes the complete index or, on an error, nothing. `kind`: the bytes with which each version of such an index begins.
/// A file that begins with others isn't overwritten.
void write_index_file(const std::string& path, std::string_view kind, std::span<const std::uint64_t> words);

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_SOURCE)
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>

#include <feedline/core/random.hpp>
#include <feedline/detail/file_draft.hpp>
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
  try {
    auto draft = file_draft::begin(draft_name(path));
    const std::uint64_t checksum = checksum_of(words);
    if (draft) draft->keep(path, {std::as_bytes(words), std::as_bytes(std::span(&checksum, 1))});
  } catch (const std::system_error&) { // as in a folder that others own
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
