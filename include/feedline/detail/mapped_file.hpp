// SPDX-License-Identifier: MIT
#pragma once
// A whole file as read-only memory.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>

#include <feedline/detail/open_file.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Identifies a file and its version.
struct file_state {
  explicit file_state(const struct stat& status) noexcept
      : device(status.st_dev),
        number(status.st_ino),
        size(static_cast<std::uint64_t>(status.st_size)),
        modified_ns(std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec) {}

  friend auto operator<=>(const file_state&, const file_state&) = default;

  ::dev_t device;
  ::ino_t number;
  std::uint64_t size;
  std::int64_t modified_ns;
};

/// Whether all users in the process share a file's bytes in memory, or this user has its own.
enum class sharing { all, alone };

/// A file's bytes in memory: mapped, or read where that is cheaper or the system has no more maps. A process can have about
/// 65,530 maps (vm.max_map_count), and this class leaves some for others.
class file_memory {
 public:
  /// The memory of the file with this path; files with several names share it. Throws as mapped_file does.
  static std::shared_ptr<const file_memory> of(const std::string& path, sharing with);

  file_memory(const open_file& file, const file_state& state, const std::string& path);

  file_memory(const file_memory&) = delete;
  file_memory& operator=(const file_memory&) = delete;

  ~file_memory() {
    unmap();
    in_use::of_process().forget(state_);
  }

  std::span<const std::byte> bytes() const noexcept { return bytes_; }

  bool is_mapped() const noexcept;

  const file_state& state() const noexcept { return state_; }

 private:
  /// The files that the process has in memory. It keeps none of them alive.
  class in_use {
   public:
    // Its symbol is visible, so that libraries that hide theirs share it.
    [[gnu::visibility("default")]] static in_use& of_process() {
      static in_use* const files = make();
      return *files;
    }

    std::shared_ptr<const file_memory> find(const file_state& state);

    /// The existing memory of the same file and version, or else this one.
    std::shared_ptr<const file_memory> add(const std::shared_ptr<const file_memory>& memory);

    void forget(const file_state& state) noexcept;

    std::atomic<std::size_t> maps{0};

   private:
    static in_use* make();

    std::mutex mutex_;
    std::map<file_state, std::weak_ptr<const file_memory>> files_;
  };

  static constexpr std::size_t most_maps = 60'000;

  // False if there are too many maps, or the file system has none.
  bool map(const open_file& file) noexcept;

  void unmap() noexcept;

  // Reads to the end of the file: some files, such as those of /proc, are longer than their size says.
  void read(const open_file& file, const std::string& path);

  [[noreturn]] static void fail(int reason, const std::string& path);

  file_state state_;
  std::vector<std::byte> read_;
  std::span<const std::byte> bytes_;
};

/// The name of a file or an object, and what identifies its version.
struct named_version {
  std::string path; ///< for messages
  std::uint64_t bytes = 0;
  std::uint64_t version = 0; ///< of a file: when it was modified
};

/// The bytes of a regular file, as long as the object lives. Deleting or replacing the file meanwhile is
/// harmless. Shortening it in place is not: as with all mappings, touching the lost part ends the process with
/// SIGBUS.
class mapped_file {
 public:
  /// Throws std::system_error, whose what() is "PATH: REASON", or std::runtime_error if it is not a regular
  /// file.
  explicit mapped_file(std::string path, sharing with = sharing::all);

  std::span<const std::byte> bytes() const noexcept { return memory_->bytes(); }

  const std::string& path() const noexcept { return version_.path; }

  const named_version& version() const noexcept { return version_; }

  /// Whether keeping it takes no memory of the process.
  bool is_mapped() const noexcept { return memory_->is_mapped(); }

  /// When the file was last written, in nanoseconds since 1970.
  std::int64_t modified_ns() const noexcept;

  /// Makes the system start to read these bytes if they aren't in memory yet. Returns at once.
  void will_need(std::uint64_t offset, std::uint64_t count) const noexcept;

  /// Informs the system that reads are not sequential, so that it doesn't read ahead. This affects all who
  /// share the mapping.
  void expect_jumps() const noexcept;

 private:
  std::shared_ptr<const file_memory> memory_;
  named_version version_;
};

/// Maps files on first use and keeps up to `most` of them mapped. Any thread may use it.
class lazy_maps {
 public:
  static constexpr std::size_t most = 1024; // at once

  explicit lazy_maps(std::vector<std::string> names);

  /// Throws as mapped_file does; the next call tries again.
  std::shared_ptr<const mapped_file> at(std::size_t number);

 private:
  std::vector<std::string> names_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const mapped_file>> files_;
  std::deque<std::size_t> mapped_; // the oldest first
};

/// Announces reads of a file to the system in steps, as the reader advances.
struct announced_file {
  std::shared_ptr<const mapped_file> file;
  std::uint64_t bytes = 0;

  static constexpr std::uint64_t step = std::uint64_t{256} << 10; // systems truncate longer requests

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

  std::uint64_t without_size() const noexcept { return hash_; }

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
