// SPDX-License-Identifier: MIT
#pragma once
// A whole file as read-only memory.
#include <algorithm>
#include <cerrno>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <feedline/detail/kernel.hpp>
#include <feedline/detail/open_file.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline v0::detail {

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

/// A file's bytes in memory: mapped, or read where that is cheaper.
class file_memory {
 public:
  /// The memory of the file with this path; files with several names share it. Throws as mapped_file does.
  static std::shared_ptr<const file_memory> of(const std::string& path, sharing with) {
    struct stat status {};

    if (::stat(path.c_str(), &status) != 0) fail(errno, path);
    // Checked before opening, as opening a device may have side effects.
    if (S_ISDIR(status.st_mode)) fail(EISDIR, path);
    if (!S_ISREG(status.st_mode)) throw std::runtime_error(readable(path) + ": is not a regular file");
    if (with == sharing::all)
      if (auto memory = in_use::of_process().find(file_state(status))) return memory;
    // Without O_NONBLOCK opening a named pipe would wait for its writer.
    const open_file file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file || ::fstat(file.number(), &status) != 0) fail(errno, path);
    auto memory = std::make_shared<const file_memory>(file, file_state(status), path);
    return with == sharing::all ? in_use::of_process().add(memory) : memory;
  }

  file_memory(const open_file& file, const file_state& state, const std::string& path) : state_(state) {
    constexpr std::uint64_t few = 16 << 10; // bytes; a process can have about 65,530 maps
    if (state.size > std::numeric_limits<std::size_t>::max()) fail(EFBIG, path);
    if (state.size <= few) {
      read(file, path);
      return;
    }
    const auto size = static_cast<std::size_t>(state.size);
    void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number(), 0);
    if (memory == MAP_FAILED) fail(errno, path);
    bytes_ = {static_cast<const std::byte*>(memory), size};
  }

  file_memory(const file_memory&) = delete;
  file_memory& operator=(const file_memory&) = delete;

  ~file_memory() {
    if (is_mapped()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
    in_use::of_process().forget(state_);
  }

  std::span<const std::byte> bytes() const noexcept { return bytes_; }

  bool is_mapped() const noexcept { return bytes_.data() != read_.data(); }

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

    std::shared_ptr<const file_memory> find(const file_state& state) {
      const std::lock_guard lock(mutex_);
      const auto found = files_.find(state);
      return found == files_.end() ? nullptr : found->second.lock();
    }

    /// The existing memory of the same file and version, or else this one.
    std::shared_ptr<const file_memory> add(const std::shared_ptr<const file_memory>& memory) {
      const std::lock_guard lock(mutex_);
      std::weak_ptr<const file_memory>& known = files_[memory->state()];
      if (auto earlier = known.lock()) return earlier;
      known = memory;
      return memory;
    }

    void forget(const file_state& state) noexcept {
      const std::lock_guard lock(mutex_);
      const auto found = files_.find(state);
      if (found != files_.end() && found->second.expired()) files_.erase(found);
    }

   private:
    static in_use* make() {
      // Otherwise a child forked by another thread could find the mutex locked forever.
      around_fork([] { of_process().mutex_.lock(); }, [] { of_process().mutex_.unlock(); });
      return new in_use(); // never destroyed: static samples may outlive anything
    }

    std::mutex mutex_;
    std::map<file_state, std::weak_ptr<const file_memory>> files_;
  };

  // Reads to the end of the file: some files, such as those of /proc, are longer than their size says.
  void read(const open_file& file, const std::string& path) {
    constexpr std::size_t step = 4096;
    const std::size_t size = state_.size > 0 ? static_cast<std::size_t>(state_.size) + 1 : step;
    for (std::size_t got = 0;;) {
      if (got == read_.size()) read_.resize(std::max(size, 2 * got));
      const ::ssize_t count = ::read(file.number(), read_.data() + got, read_.size() - got);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail(errno, path);
      got += static_cast<std::size_t>(count);
      if (count > 0) continue;
      read_.resize(got);
      read_.shrink_to_fit();
      bytes_ = read_;
      return;
    }
  }

  [[noreturn]] static void fail(int reason, const std::string& path) {
    throw std::system_error(reason, std::generic_category(), readable(path));
  }

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
  explicit mapped_file(std::string path, sharing with = sharing::all)
      : memory_(file_memory::of(path, with)),
        version_{std::move(path), memory_->bytes().size(), static_cast<std::uint64_t>(modified_ns())} {}

  std::span<const std::byte> bytes() const noexcept { return memory_->bytes(); }

  const std::string& path() const noexcept { return version_.path; }

  const named_version& version() const noexcept { return version_; }

  /// When the file was last written, in nanoseconds since 1970.
  std::int64_t modified_ns() const noexcept { return memory_->state().modified_ns; }

  /// Makes the system start to read these bytes if they aren't in memory yet. Returns at once.
  void will_need(std::uint64_t offset, std::uint64_t count) const noexcept {
    constexpr std::uint64_t page = 4096; // if pages are larger, the call has no effect
    const std::uint64_t begin = std::min<std::uint64_t>(offset, bytes().size()) / page * page;
    const std::uint64_t end = std::min<std::uint64_t>(offset + count, bytes().size());
    if (begin < end && memory_->is_mapped())
      ::madvise(const_cast<std::byte*>(bytes().data() + begin), static_cast<std::size_t>(end - begin),
                MADV_WILLNEED);
  }

  /// Informs the system that reads are not sequential, so that it doesn't read ahead. This affects all who
  /// share the mapping.
  void expect_jumps() const noexcept {
    if (memory_->is_mapped()) ::madvise(const_cast<std::byte*>(bytes().data()), bytes().size(), MADV_RANDOM);
  }

 private:
  std::shared_ptr<const file_memory> memory_;
  named_version version_;
};

/// Maps files on first use and keeps up to `most` of them mapped. Any thread may use it.
class lazy_maps {
 public:
  static constexpr std::size_t most = 1024; // at once: a process can have about 65,530 maps

  explicit lazy_maps(std::vector<std::string> names) : names_(std::move(names)), files_(names_.size()) {}

  /// Throws as mapped_file does; the next call tries again.
  std::shared_ptr<const mapped_file> at(std::size_t number) {
    {
      const std::lock_guard lock(mutex_);
      if (files_[number]) return files_[number];
    }
    auto file = std::make_shared<const mapped_file>(names_[number]);
    std::shared_ptr<const mapped_file> oldest; // released without the lock
    const std::lock_guard lock(mutex_);
    if (files_[number]) return files_[number];
    if (mapped_.size() == most) {
      oldest = std::move(files_[mapped_.front()]);
      mapped_.pop_front();
    }
    mapped_.push_back(number);
    return files_[number] = std::move(file);
  }

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
  void reach(std::uint64_t end) {
    for (; bytes < std::min<std::uint64_t>(end, file->bytes().size()); bytes += step)
      file->will_need(bytes, step);
  }
};

/// The part of a path after the last slash.
inline std::string_view last_name(std::string_view path) noexcept { return path.substr(path.rfind('/') + 1); }

/// The hash of a file's contents, see fingerprint_of_file().
class content_fingerprint {
 public:
  static constexpr std::size_t block = 4096;

  /// Adds the first block, and the last one if the file is larger than a block.
  void add(std::span<const std::byte> bytes) noexcept {
    for (const std::byte b : bytes) hash_ = (hash_ ^ static_cast<std::uint8_t>(b)) * 0x100000001b3;
  }

  std::uint64_t of_size(std::uint64_t size) const noexcept { return hash_ ^ (size * 0x9e3779b97f4a7c15); }

  std::uint64_t without_size() const noexcept { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325; // FNV-1a, as in stable_hash()
};

/// A hash of a file's size, its first 4 KB and its last 4 KB: two versions of a file rarely have the same. 0 if
/// the file can't be read.
inline std::uint64_t fingerprint_of_file(const std::string& path) noexcept {
  struct stat status {};

  // Opening a named pipe would look like a reader to a waiting writer.
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  const int number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (number < 0) return 0;
  content_fingerprint contents;
  std::uint64_t hash = contents.without_size();
  if (::fstat(number, &status) == 0 && S_ISREG(status.st_mode)) {
    std::byte block[content_fingerprint::block];
    const auto add = [&](::off_t begin) {
      const ::ssize_t got = ::pread(number, block, sizeof block, begin);
      contents.add({block, static_cast<std::size_t>(std::max<::ssize_t>(0, got))});
    };
    add(0);
    if (status.st_size > ::off_t{sizeof block}) add(status.st_size - ::off_t{sizeof block});
    hash = contents.of_size(static_cast<std::uint64_t>(status.st_size));
  }
  ::close(number);
  return hash;
}

/// The file's size in bytes; nothing if it is not a regular file. Throws std::system_error, whose what() is
/// "PATH: REASON".
inline std::optional<std::uint64_t> size_of_regular_file(const std::string& path) {
  struct stat status {};

  if (::stat(path.c_str(), &status) != 0)
    throw std::system_error(errno, std::generic_category(), readable(path));
  if (!S_ISREG(status.st_mode)) return {};
  return static_cast<std::uint64_t>(status.st_size);
}

} // namespace feedline::inline v0::detail
