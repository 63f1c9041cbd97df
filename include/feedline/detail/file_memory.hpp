// SPDX-License-Identifier: MIT
#pragma once
// The bytes of a file in memory, which all users in the process may share.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <feedline/detail/file_state.hpp>
#include <feedline/detail/kernel.hpp>
#include <feedline/detail/open_file.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A file's bytes in memory: mapped, or read where that is cheaper or the system has no more maps. A process can have about
/// 65,530 maps (vm.max_map_count), and this class leaves some for others.
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
    auto memory = std::make_shared<const file_memory>(file, status, path);
    return with == sharing::all ? in_use::of_process().add(memory) : memory;
  }

  file_memory(const open_file& file, const struct stat& status, const std::string& path) : state_(status) {
    constexpr std::uint64_t few = 16 << 10; // bytes
    if (state_.size > std::numeric_limits<std::size_t>::max()) fail(EFBIG, path);
    if (state_.size > few && map(file)) {
      tells_pages_ =
          status.st_uid == ::geteuid() || ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
      return;
    }
    try {
      read(file, path);
    } catch (const std::bad_alloc&) {
      fail(ENOMEM, path);
    }
  }

  file_memory(const file_memory&) = delete;
  file_memory& operator=(const file_memory&) = delete;

  ~file_memory() {
    unmap();
    in_use::of_process().forget(state_);
  }

  std::span<const std::byte> bytes() const noexcept { return bytes_; }

  bool is_mapped() const noexcept { return bytes_.data() != read_.data(); }

  /// Whether mincore() tells which pages are in memory. Of the files of others that the process can't write, it says so of
  /// all pages.
  bool tells_pages() const noexcept { return tells_pages_; }

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

    std::atomic<std::size_t> maps{0};

   private:
    static in_use* make() {
      // Otherwise a child forked by another thread could find the mutex locked forever.
      around_fork([] { of_process().mutex_.lock(); }, [] { of_process().mutex_.unlock(); });
      return new in_use(); // never destroyed: static samples may outlive anything
    }

    std::mutex mutex_;
    std::map<file_state, std::weak_ptr<const file_memory>> files_;
  };

  static constexpr std::size_t most_maps = 60'000;

  // False if there are too many maps, or the file system has none.
  bool map(const open_file& file) noexcept {
    std::atomic<std::size_t>& maps = in_use::of_process().maps;
    const auto size = static_cast<std::size_t>(state_.size);
    void* const memory = maps.fetch_add(1) < most_maps
                             ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number(), 0)
                             : MAP_FAILED;
    if (memory == MAP_FAILED) {
      --maps;
      return false;
    }
    bytes_ = {static_cast<const std::byte*>(memory), size};
    return true;
  }

  void unmap() noexcept {
    if (!is_mapped()) return;
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
    --in_use::of_process().maps;
  }

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
  bool tells_pages_ = false;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
