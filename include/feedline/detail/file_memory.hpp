// SPDX-License-Identifier: MIT
#pragma once
// The bytes of a file in memory, which all users in the process may share.
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <feedline/detail/file_state.hpp>
#include <feedline/detail/open_file.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A file's bytes in memory: mapped, or read where that is cheaper or the system has no more maps. A process can have about
/// 65,530 maps (vm.max_map_count), and this class leaves some for others.
class file_memory {
 public:
  /// The memory of the file with this path; files with several names share it. Throws as mapped_file does.
  static std::shared_ptr<const file_memory> of(const std::string& path, sharing with);

  file_memory(const open_file& file, const struct stat& status, const std::string& path);

  file_memory(const file_memory&) = delete;
  file_memory& operator=(const file_memory&) = delete;

  ~file_memory() {
    unmap();
    in_use::of_process().forget(state_);
  }

  std::span<const std::byte> bytes() const noexcept { return bytes_; }

  bool is_mapped() const noexcept;

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
  bool tells_pages_ = false;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/detail/file_memory.ipp>
#endif
