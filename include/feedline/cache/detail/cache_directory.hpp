// SPDX-License-Identifier: MIT
#pragma once
// Stores values in files of a directory that processes share.
//
// Each process appends records to its own files, which it keeps locked, and reads the files of all. A file
// gets its full size when it is created, under the directory's lock, so that all files together never exceed
// the limit, even if processes are killed. The content of a file ends where no valid record follows.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <feedline/cache/detail/cache_table.hpp>
#include <feedline/cache/detail/shared_map.hpp>
#include <feedline/core/callback.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/stored_value.hpp>
#include <feedline/detail/open_file.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class directory_table : public cache_table {
 public:
  /// `fingerprint`: only processes with the same one share values. `on_notice`: called once, when nothing more
  /// can be stored. Throws std::system_error if the directory can't be created, opened or written to.
  directory_table(std::string directory, std::uint64_t max_bytes, std::uint64_t fingerprint,
                  cache_counters& counters, callback<std::string> on_notice)
      : directory_(std::move(directory)),
        max_bytes_(max_bytes),
        fingerprint_(fingerprint),
        counters_(counters),
        on_notice_(std::move(on_notice)) {
    make_directories(directory_);
    const std::string name = directory_ + "/feedline-lock";
    lock_ = open_file(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!lock_) throw std::system_error(errno, std::generic_category(), readable(name));
    open_new_files();
    for (const auto& s : files_) scan(*s);
    if (lock_.lock(false)) {
      take_over();
      lock_.unlock();
    } else if (errno != EWOULDBLOCK) {
      throw std::system_error(errno, std::generic_category(), readable(name));
    } // else another process holds it: it may be suspended, so nothing waits for it
    refreshed_ = clock::now();
  }

  ~directory_table() {
    if (is_usable() && own_) trim(*own_);
  }

  // In a child of fork() the file still belongs to the parent.
  bool is_usable() const override { return ::getpid() == process_; }

  std::span<const std::byte> find(const cache_key& k, scratch_memory& scratch) override {
    auto found = entries_.find(k);
    if (!found && refresh()) found = entries_.find(k);
    if (!found) return {};
    const std::size_t size = sizeof(record) + found->size;
    std::byte* const bytes = scratch.of(size);
    const std::span value(bytes + sizeof(record), found->size);
    record head{};
    if (found->in->file.read(bytes, size, found->offset) == size) {
      std::memcpy(&head, bytes, sizeof head);
      if (head.is_whole() && head.magic == record::sign && head.key == k && head.size == found->size &&
          head.hash == hash_of_block(value))
        return value;
    }
    drop(k, *found);
    return {};
  }

  void forget(const cache_key& k) override {
    if (const auto found = entries_.find(k)) drop(k, *found);
  }

  std::byte* room(const cache_key& k, std::size_t size, scratch_memory& scratch) override {
    if (stopped_.load(std::memory_order_relaxed) || !is_usable() || entries_.contains(k)) return nullptr;
    return scratch.of(sizeof(record) + size) + sizeof(record);
  }

  void keep(const cache_key& k, std::byte* value, std::size_t size) override {
    record head{record::sign, k, size, hash_of_block({value, size}), 0};
    head.check = head.right_check();
    std::memcpy(value - sizeof head, &head, sizeof head);
    const std::size_t taken = sizeof head + size;
    const auto [to, offset] = reserve(taken);
    if (!to) return;
    if (const int error = to->file.write(value - sizeof head, taken, offset)) return stop(to->name, error);
    add(k, {to, offset, size});
  }

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

  // As create_file() names them: no file of a user's.
  static bool is_cache_file(std::string_view name) noexcept {
    if (!name.starts_with("feedline-") || !name.ends_with(".cache")) return false;
    name.remove_prefix(std::string_view("feedline-").size());
    name.remove_suffix(std::string_view(".cache").size());
    const std::size_t dash = name.find('-');
    return dash > 0 && dash + 1 < name.size() && name.find_first_not_of("0123456789") == dash &&
           name.find_first_not_of("0123456789", dash + 1) == name.npos;
  }

  /// Calls f with the name of each cache file, whichever process wrote it.
  template <class F>
  void for_each_name(F f) const {
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(directory_.c_str()), ::closedir);
    if (!listing) return;
    while (const dirent* const item = ::readdir(listing.get()))
      if (is_cache_file(item->d_name)) f(directory_ + "/" + item->d_name);
  }

  open_file open(const std::string& name) const {
    return open_file(::open(name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  }

  bool has_our_fingerprint(const open_file& file) const noexcept {
    file_head head{};
    return file.read(&head, sizeof head, 0) == sizeof head && head.magic == file_head::sign &&
           head.check == head.right_check() && head.fingerprint == fingerprint_;
  }

  /// Opens the files of our fingerprint that weren't known.
  std::vector<cache_file*> open_new_files() {
    std::vector<cache_file*> found;
    for_each_name([&](const std::string& name) {
      for (const auto& s : files_)
        if (s->name == name) return;
      open_file file = open(name);
      if (!file || !has_our_fingerprint(file)) return;
      files_.push_back(std::make_unique<cache_file>(cache_file{name, std::move(file)}));
      found.push_back(files_.back().get());
    });
    return found;
  }

  /// Files of ours that no process has locked belonged to processes that are gone: this process takes them
  /// over. Call it under the directory's lock.
  void take_over() {
    const std::lock_guard lock(files_mutex_);
    open_new_files();
    for (const auto& s : files_) {
      if (s->is_ours || !s->file.lock(false)) continue;
      scan(*s);
      s->file.resize(s->end);
      s->is_ours = true;
    }
    has_taken_over_ = true;
  }

  /// Reads the heads of the records that were added to a file.
  void scan(cache_file& s) {
    constexpr std::size_t block = 4096;
    std::byte bytes[block];
    std::size_t got = 0; // from `at`
    std::uint64_t at = s.end;
    const std::uint64_t size = s.file.size();
    while (size - s.end >= sizeof(record) && size > s.end) {
      if (s.end < at || s.end + sizeof(record) > at + got) {
        at = s.end;
        got = s.file.read(bytes, block, at);
        if (got < sizeof(record)) return;
      }
      record head{};
      std::memcpy(&head, bytes + (s.end - at), sizeof head);
      if (!head.is_whole() || head.size > size - s.end - sizeof head || head.size > max_bytes_) return;
      if (head.magic == record::sign) add(head.key, {&s, s.end, static_cast<std::size_t>(head.size)});
      s.end += sizeof head + head.size;
    }
  }

  /// Looks, once a second, for what other processes have written. Returns false if it didn't look.
  bool refresh() {
    const std::unique_lock lock(files_mutex_, std::try_to_lock);
    if (!lock || clock::now() - refreshed_ < std::chrono::seconds(1)) return false;
    refreshed_ = clock::now();
    open_new_files();
    for (const auto& s : files_)
      if (!s->is_ours) scan(*s);
    return true;
  }

  void add(const cache_key& k, const entry& e) {
    try {
      if (entries_.insert(k, e))
        counters_.bytes.fetch_add(sizeof(record) + e.size, std::memory_order_relaxed);
    } catch (const std::bad_alloc&) { // then it won't be found
    }
  }

  // Marks the record, so that it isn't found next time. A record of another process may just be incomplete.
  void drop(const cache_key& k, const entry& e) {
    if (!entries_.erase(k, e)) return;
    counters_.bytes.fetch_sub(sizeof(record) + e.size, std::memory_order_relaxed);
    if (!e.in->is_ours || !is_usable()) return;
    record head{record::sign_of_damaged, k, e.size, 0, 0};
    head.check = head.right_check();
    e.in->file.write(&head, sizeof head, e.offset);
  }

  /// Reserves bytes in this process's file; null if there is no room.
  std::pair<cache_file*, std::uint64_t> reserve(std::uint64_t count) {
    const std::lock_guard lock(own_mutex_);
    if (stopped_.load(std::memory_order_relaxed)) return {};
    if ((!own_ || own_->size - own_->end < count) && !begin_file(count)) return {};
    return {own_, std::exchange(own_->end, own_->end + count)};
  }

  /// Creates a file with room for `count` bytes, if the limit leaves room for it.
  bool begin_file(std::uint64_t count) {
    const std::uint64_t needed = sizeof(file_head) + count;
    if (has_no_room_ || needed > max_bytes_) { // a single value may be too large
      counters_.full.store(true, std::memory_order_relaxed);
      return false;
    }
    if (!lock_.lock(false)) return false; // another process creates a file: the next value tries again
    if (!has_taken_over_) take_over();
    if (own_) trim(*own_);
    own_ = nullptr;
    std::uint64_t left = bytes_left();
    if (left < needed) left += remove_others();
    // Leaves room for other processes: the less room is left, the smaller the file.
    const std::uint64_t wished = std::min({std::max(usual_size, max_bytes_ / 256), max_bytes_ / 8, left / 8});
    has_no_room_ = left < needed;
    if (has_no_room_) counters_.full.store(true, std::memory_order_relaxed);
    else create_file(std::min(left, std::max(wished, needed)));
    lock_.unlock();
    return own_ != nullptr;
  }

  std::uint64_t bytes_left() const {
    std::uint64_t sum = 0;
    for_each_name([&](const std::string& name) {
      struct stat status {};

      if (::lstat(name.c_str(), &status) == 0) sum += static_cast<std::uint64_t>(status.st_size);
    });
    return max_bytes_ - std::min(sum, max_bytes_);
  }

  /// Removes cache files with other fingerprints, and files that aren't valid, unless a process has them
  /// locked. Returns the number of bytes that this freed.
  std::uint64_t remove_others() {
    std::uint64_t before = bytes_left();
    for_each_name([&](const std::string& name) {
      const open_file file = open(name);
      if (file && !has_our_fingerprint(file) && file.lock(false)) ::unlink(name.c_str());
    });
    return bytes_left() - before;
  }

  void create_file(std::uint64_t size) {
    const auto now = std::chrono::system_clock::now().time_since_epoch().count();
    const std::string name =
        directory_ + "/feedline-" + std::to_string(process_) + "-" + std::to_string(now) + ".cache";
    open_file file(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file) {
      if (errno != EEXIST) stop(name, errno); // else the next value uses another name
      return;
    }
    file_head head{file_head::sign, fingerprint_, 0};
    head.check = head.right_check();
    int error = file.lock(false) ? file.resize(size) : errno;
    if (error == 0) error = file.write(&head, sizeof head, 0);
    if (error != 0) {
      ::unlink(name.c_str());
      return stop(name, error);
    }
    const std::lock_guard lock(files_mutex_);
    own_ = files_
               .emplace_back(
                   std::make_unique<cache_file>(cache_file{name, std::move(file), sizeof head, size, true}))
               .get();
  }

  /// Cuts off what it doesn't need.
  static void trim(cache_file& s) {
    s.size = s.end;
    s.file.resize(s.end);
  }

  /// Stores nothing more.
  void stop(const std::string& name, int error) {
    if (stopped_.exchange(true)) return;
    if (error == ENOSPC || error == EDQUOT || error == EFBIG)
      counters_.full.store(true, std::memory_order_relaxed);
    const std::string sentence = "feedline: the cache can't write to " + readable(name) + ": " +
                                 std::generic_category().message(error) +
                                 "; it stores nothing more, and the run continues";
    try {
      notify(on_notice_, sentence);
    } catch (...) { // the sample in hand isn't to blame
    }
  }

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
