// SPDX-License-Identifier: MIT
#pragma once
// Stores values in files of a directory that processes share.
//
// Each process appends records to its own files, which it keeps locked, and reads the files of all. A file
// gets its full size when it is created, under the directory's lock, so that all files together never exceed
// the limit, even if processes are killed. The content of a file ends where no valid record follows.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dirent.h>
#include <unistd.h>

#include <feedline/core/callback.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/stored_value.hpp>
#include <feedline/detail/open_file.hpp>
#include <feedline/stage/detail/cache_table.hpp>
#include <feedline/stage/detail/shared_map.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class directory_table : public cache_table {
 public:
  /// `fingerprint`: only processes with the same one share values. `on_notice`: called once, when nothing more
  /// can be stored. Throws std::system_error if the directory can't be created, opened or written to.
  directory_table(std::string directory, std::uint64_t max_bytes, std::uint64_t fingerprint,
                  cache_counters& counters, callback<std::string> on_notice);

  ~directory_table() {
    if (is_usable() && own_) trim(*own_);
  }

  // In a child of fork() the file still belongs to the parent.
  bool is_usable() const override { return ::getpid() == process_; }

  std::span<const std::byte> find(const cache_key& k, scratch_memory& scratch) override;

  void forget(const cache_key& k) override;

  std::byte* room(const cache_key& k, std::size_t size, scratch_memory& scratch) override {
    if (stopped_.load(std::memory_order_relaxed) || !is_usable() || entries_.contains(k)) return nullptr;
    return scratch.of(sizeof(record) + size) + sizeof(record);
  }

  void keep(const cache_key& k, std::byte* value, std::size_t size) override;

 private:
  using clock = std::chrono::steady_clock;

  /// At the start of a file.
  struct file_head {
    static constexpr std::uint64_t sign = 0x3165686361636c66; // "flcache1"

    std::uint64_t magic;
    std::uint64_t fingerprint;
    std::uint64_t check;

    std::uint64_t right_check() const noexcept { return detail::key(magic, fingerprint); }
  };

  /// Before each value.
  struct record {
    static constexpr std::uint64_t sign = 0x64726f6365726c66;            // "flrecord"
    static constexpr std::uint64_t sign_of_damaged = 0x6461622d65726c66; // "flre-bad"

    std::uint64_t magic;
    cache_key key;
    std::uint64_t size; // of the value in bytes
    std::uint64_t hash; // of the value
    std::uint64_t check;

    std::uint64_t right_check() const noexcept {
      return detail::key(magic, key.sample, key.rest, size, hash);
    }

    bool is_whole() const noexcept {
      return (magic == sign || magic == sign_of_damaged) && check == right_check();
    }
  };

  struct cache_file {
    std::string name;
    open_file file;
    std::uint64_t end = sizeof(file_head); // of the records that are known
    std::uint64_t size = 0;                // of the file, if this process writes to it
    bool is_ours = false;                  // locked by this process
  };

  struct entry {
    const cache_file* in;
    std::uint64_t offset;
    std::size_t size;

    bool operator==(const entry&) const = default;
  };

  static constexpr std::uint64_t usual_size = std::uint64_t{64} << 20; // of a file

  static bool is_cache_file(std::string_view name) noexcept;

  /// Calls f with the name of each cache file, whichever process wrote it.
  template <class F>
  void for_each_name(F f) const {
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(directory_.c_str()), ::closedir);
    if (!listing) return;
    while (const dirent* const item = ::readdir(listing.get()))
      if (is_cache_file(item->d_name)) f(directory_ + "/" + item->d_name);
  }

  open_file open(const std::string& name) const;

  bool has_our_fingerprint(const open_file& file) const noexcept {
    file_head head{};
    return file.read(&head, sizeof head, 0) == sizeof head && head.magic == file_head::sign &&
           head.check == head.right_check() && head.fingerprint == fingerprint_;
  }

  /// Opens the files of our fingerprint that weren't known.
  std::vector<cache_file*> open_new_files();

  /// Files of ours that no process has locked belonged to processes that are gone: this process takes them
  /// over. Call it under the directory's lock.
  void take_over();

  /// Reads the heads of the records that were added to a file.
  void scan(cache_file& s);

  /// Looks, once a second, for what other processes have written. Returns false if it didn't look.
  bool refresh();

  void add(const cache_key& k, const entry& e);

  // Marks the record, so that it isn't found next time. A record of another process may just be incomplete.
  void drop(const cache_key& k, const entry& e);

  /// Reserves bytes in this process's file; null if there is no room.
  std::pair<cache_file*, std::uint64_t> reserve(std::uint64_t count);

  /// Creates a file with room for `count` bytes, if the limit leaves room for it.
  bool begin_file(std::uint64_t count);

  std::uint64_t bytes_left() const;

  /// Removes cache files with other fingerprints, and files that aren't valid, unless a process has them
  /// locked. Returns the number of bytes that this freed.
  std::uint64_t remove_others();

  void create_file(std::uint64_t size);

  /// Cuts off what it doesn't need.
  static void trim(cache_file& s) {
    s.size = s.end;
    s.file.resize(s.end);
  }

  /// Stores nothing more.
  void stop(const std::string& name, int error);

  std::string directory_;
  std::uint64_t max_bytes_;
  std::uint64_t fingerprint_;
  cache_counters& counters_;
  callback<std::string> on_notice_;
  const ::pid_t process_ = ::getpid();
  open_file lock_;
  shared_map<entry> entries_;
  std::mutex files_mutex_; // guards the next two:
  std::vector<std::unique_ptr<cache_file>> files_;
  clock::time_point refreshed_;
  std::mutex own_mutex_;      // guards the rest:
  cache_file* own_ = nullptr; // the file that this process writes to
  bool has_no_room_ = false;
  bool has_taken_over_ = false;
  std::atomic<bool> stopped_{false};
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/stage/detail/cache_directory.ipp>
#endif
