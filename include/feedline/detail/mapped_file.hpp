// SPDX-License-Identifier: MIT
#pragma once
// A whole file as read-only memory.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/detail/file_state.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class file_memory;

/// The name of a file or an object, and what identifies its version.
struct named_version {
  std::string path; ///< for messages
  std::uint64_t bytes = 0;
  std::uint64_t version = 0; ///< of a file: when it was modified; of an object: also a hash of its whole name

  bool operator==(const named_version&) const = default;
};

/// The bytes of a regular file, as long as the object lives. Deleting or replacing the file meanwhile is
/// harmless. Shortening it in place is not: as with all mappings, touching the lost part ends the process with
/// SIGBUS.
class mapped_file {
 public:
  /// Throws std::system_error, whose what() is "PATH: REASON", or std::runtime_error if it is not a regular
  /// file.
  explicit mapped_file(std::string path, sharing with = sharing::all);

  std::span<const std::byte> bytes() const noexcept { return bytes_; }

  const std::string& path() const noexcept { return version_.path; }

  const named_version& version() const noexcept { return version_; }

  /// Whether keeping it takes no memory of the process.
  bool is_mapped() const noexcept;

  /// When the file was last written, in nanoseconds since 1970.
  std::int64_t modified_ns() const noexcept;

  /// Whether the system has the byte at `offset`, and so probably those near it, in memory. False if it doesn't say.
  bool is_in_memory(std::uint64_t offset) const noexcept;

  /// Makes the system start to read these bytes if they aren't in memory yet. Returns at once.
  void will_need(std::uint64_t offset, std::uint64_t count) const noexcept;

  /// The same for few bytes among others: nothing if they are in memory, or the system doesn't say. Returns whether it asked
  /// the system to read them.
  bool will_need_few(std::uint64_t offset, std::uint64_t count) const noexcept;

  /// Informs the system that reads are not sequential, so that it doesn't read ahead. This affects all who
  /// share the mapping.
  void expect_jumps() const noexcept;

 private:
  std::shared_ptr<const file_memory> memory_;
  std::span<const std::byte> bytes_;
  named_version version_;
};

/// Maps files on first use and keeps up to `most` of them mapped. Any thread may use it.
class lazy_maps {
 public:
  static constexpr std::size_t most = 1024; // at once

  explicit lazy_maps(std::vector<std::string> names);

  /// Throws as mapped_file does; the next call tries again.
  std::shared_ptr<const mapped_file> at(std::size_t number);

  /// mapped_file::will_need_few() of a file; false if it can't be mapped, which at() throws.
  bool will_need_few(std::size_t number, std::uint64_t offset, std::uint64_t count) noexcept;

 private:
  std::vector<std::string> names_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const mapped_file>> files_;
  std::deque<std::size_t> mapped_; // the oldest first
};

/// Announces reads of a file to the system in steps, as the reader advances. Steps that are in memory aren't announced:
/// that would take as long as reading them.
struct announced_file {
  std::shared_ptr<const mapped_file> file;
  std::uint64_t bytes = 0;

  static constexpr std::uint64_t step = std::uint64_t{1} << 20;

  /// The bytes up to `end` will be needed.
  void reach(std::uint64_t end);
};

/// The part of a path after the last slash.
std::string_view last_name(std::string_view path) noexcept;

/// The hash of a file's contents, see fingerprint_of_file().
class content_fingerprint {
 public:
  static constexpr std::size_t block = 4096;

  /// Adds the first block, and the last one if the file is larger than a block.
  void add(std::span<const std::byte> bytes) noexcept;

  std::uint64_t of_size(std::uint64_t size) const noexcept { return hash_ ^ (size * 0x9e3779b97f4a7c15); }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325; // FNV-1a, as in stable_hash()
};

/// A hash of a file's size, its first 4 KB and its last 4 KB: two versions of a file rarely have the same. 0 if
/// the file can't be read.
std::uint64_t fingerprint_of_file(const std::string& path) noexcept;

/// The file's size in bytes; nothing if it is not a regular file. Throws std::system_error, whose what() is
/// "PATH: REASON".
std::optional<std::uint64_t> size_of_regular_file(const std::string& path);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/detail/mapped_file.ipp>
#endif
