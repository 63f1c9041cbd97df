// SPDX-License-Identifier: MIT
#pragma once
// Keeps values in files of a directory, which processes share.
//
// Each process appends records to segments of its own, which it keeps locked; it reads those of all. Segments are
// given their size when they are made, under the directory's lock, so that all files together never have more
// bytes than they may, whoever is killed when. A segment's end is where no whole record follows.
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

#include <feedline/core/random.hpp>
#include <feedline/detail/open_file.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/stage/detail/cache_table.hpp>
#include <feedline/stage/detail/stored_value.hpp>

namespace feedline::inline v0::detail {

/// Called once with a sentence, when nothing more can be kept.
using tell_trouble = void (*)(void* to_whom, const std::string& sentence);

class directory_table : public cache_table {
 public:
  /// `fingerprint`: only processes that have the same one share values. Throws std::system_error if the directory
  /// can't be made, opened or written to.
  directory_table(std::string directory, std::uint64_t most_bytes, std::uint64_t fingerprint,
                  cache_counters& counters, tell_trouble tell, void* to_whom)
      : directory_(std::move(directory)),
        most_(most_bytes),
        fingerprint_(fingerprint),
        counters_(counters),
        tell_(tell),
        to_whom_(to_whom) {
    make_directory();
    const std::string name = directory_ + "/lock";
    lock_ = open_file(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!lock_) throw std::system_error(errno, std::generic_category(), readable(name));
    open_new_segments();
    for (const auto& s : segments_) scan(*s);
    if (lock_.lock(false)) {
      take_over();
      lock_.unlock();
    } else if (errno != EWOULDBLOCK) {
      throw std::system_error(errno, std::generic_category(), readable(name));
    } // else it is taken for a moment, or by a process that was halted, which nobody is to wait for
    refreshed_ = clock::now();
  }

  ~directory_table() {
    if (is_usable() && own_) trim(*own_);
  }

  // In a child of fork() the segment is still the parent's.
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

  /// At the beginning of a segment.
  struct segment_head {
    static constexpr std::uint64_t sign = 0x3165686361636c66; // "flcache1"

    std::uint64_t magic;
    std::uint64_t fingerprint;
    std::uint64_t check;

    std::uint64_t right_check() const noexcept { return detail::key(magic, fingerprint); }
  };

  /// In front of each value.
  struct record {
    static constexpr std::uint64_t sign = 0x64726f6365726c66;            // "flrecord"
    static constexpr std::uint64_t sign_of_damaged = 0x6461622d65726c66; // "flre-bad"

    std::uint64_t magic;
    cache_key key;
    std::uint64_t size; // of the value
    std::uint64_t hash; // of it
    std::uint64_t check;

    std::uint64_t right_check() const noexcept {
      return detail::key(magic, key.sample, key.rest, size, hash);
    }

    bool is_whole() const noexcept {
      return (magic == sign || magic == sign_of_damaged) && check == right_check();
    }
  };

  struct segment {
    std::string name;
    open_file file;
    std::uint64_t end = sizeof(segment_head); // of what is known of it
    std::uint64_t size = 0;                   // of the file, if this process writes it
    bool is_ours = false;                     // locked by this process
  };

  struct entry {
    const segment* in;
    std::uint64_t offset;
    std::size_t size;

    bool operator==(const entry&) const = default;
  };

  static constexpr std::uint64_t usual_size = std::uint64_t{64} << 20; // of a segment

  // With all directories above it.
  void make_directory() const {
    for (std::size_t slash = directory_.find('/', 1);; slash = directory_.find('/', slash + 1)) {
      const std::string part = directory_.substr(0, slash);
      if (::mkdir(part.c_str(), 0777) != 0 && errno != EEXIST && slash == std::string::npos)
        throw std::system_error(errno, std::generic_category(), readable(part));
      if (slash == std::string::npos) return;
    }
  }

  static bool is_segment_name(std::string_view name) noexcept {
    return name.starts_with("feedline-") && name.ends_with(".cache");
  }

  /// Calls f with the name of each segment that there is, whosever.
  template <class F>
  void for_each_name(F f) const {
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(directory_.c_str()), ::closedir);
    if (!listing) return;
    while (const dirent* const item = ::readdir(listing.get()))
      if (is_segment_name(item->d_name)) f(directory_ + "/" + item->d_name);
  }

  open_file open(const std::string& name) const {
    return open_file(::open(name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  }

  bool has_our_fingerprint(const open_file& file) const noexcept {
    segment_head head{};
    return file.read(&head, sizeof head, 0) == sizeof head && head.magic == segment_head::sign &&
           head.check == head.right_check() && head.fingerprint == fingerprint_;
  }

  /// Those of our fingerprint that weren't known.
  std::vector<segment*> open_new_segments() {
    std::vector<segment*> found;
    for_each_name([&](const std::string& name) {
      for (const auto& s : segments_)
        if (s->name == name) return;
      open_file file = open(name);
      if (!file || !has_our_fingerprint(file)) return;
      segments_.push_back(std::make_unique<segment>(segment{name, std::move(file)}));
      found.push_back(segments_.back().get());
    });
    return found;
  }

  /// Segments of ours that nobody has locked are of processes that are gone: from now on they are this one's. Under
  /// the directory's lock.
  void take_over() {
    const std::lock_guard lock(segments_mutex_);
    open_new_segments();
    for (const auto& s : segments_) {
      if (s->is_ours || !s->file.lock(false)) continue;
      scan(*s);
      s->file.resize(s->end);
      s->is_ours = true;
    }
    has_taken_over_ = true;
  }

  /// Reads the heads of the records that were added to it.
  void scan(segment& s) {
    constexpr std::size_t block = 4096;
    std::byte bytes[block];
    std::size_t got = 0; // from `at` on
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
      if (!head.is_whole() || head.size > size - s.end - sizeof head || head.size > most_) return;
      if (head.magic == record::sign) add(head.key, {&s, s.end, static_cast<std::size_t>(head.size)});
      s.end += sizeof head + head.size;
    }
  }

  /// What other processes have written meanwhile, looked for once a second. False: it wasn't looked for.
  bool refresh() {
    const std::unique_lock lock(segments_mutex_, std::try_to_lock);
    if (!lock || clock::now() - refreshed_ < std::chrono::seconds(1)) return false;
    refreshed_ = clock::now();
    open_new_segments();
    for (const auto& s : segments_)
      if (!s->is_ours) scan(*s);
    return true;
  }

  void add(const cache_key& k, const entry& e) {
    try {
      if (entries_.insert(k, e))
        counters_.bytes.fetch_add(sizeof(record) + e.size, std::memory_order_relaxed);
    } catch (const std::bad_alloc&) { // then it isn't found
    }
  }

  // The record is marked, so that it isn't found again at the next time. That of another process may just not be
  // whole yet.
  void drop(const cache_key& k, const entry& e) {
    if (!entries_.erase(k, e)) return;
    counters_.bytes.fetch_sub(sizeof(record) + e.size, std::memory_order_relaxed);
    if (!e.in->is_ours || !is_usable()) return;
    record head{record::sign_of_damaged, k, e.size, 0, 0};
    head.check = head.right_check();
    e.in->file.write(&head, sizeof head, e.offset);
  }

  /// A place in a segment of this process's own; null: there is none.
  std::pair<segment*, std::uint64_t> reserve(std::uint64_t count) {
    const std::lock_guard lock(own_mutex_);
    if (stopped_.load(std::memory_order_relaxed)) return {};
    if ((!own_ || own_->size - own_->end < count) && !begin_segment(count)) return {};
    return {own_, std::exchange(own_->end, own_->end + count)};
  }

  /// Makes a segment with room for so many bytes, if all together have so much left.
  bool begin_segment(std::uint64_t count) {
    const std::uint64_t needed = sizeof(segment_head) + count;
    if (has_no_room_ || needed > most_) { // that one value may be too large
      counters_.full.store(true, std::memory_order_relaxed);
      return false;
    }
    if (!lock_.lock(false)) return false; // another process makes one: the next value may find it free
    if (!has_taken_over_) take_over();
    if (own_) trim(*own_);
    own_ = nullptr;
    std::uint64_t left = bytes_left();
    if (left < needed) left += remove_others();
    // Others may come: the more is taken, the less is taken at once.
    const std::uint64_t wished = std::min({std::max(usual_size, most_ / 256), most_ / 8, left / 8});
    has_no_room_ = left < needed;
    if (has_no_room_) counters_.full.store(true, std::memory_order_relaxed);
    else create_segment(std::min(left, std::max(wished, needed)));
    lock_.unlock();
    return own_ != nullptr;
  }

  std::uint64_t bytes_left() const {
    std::uint64_t sum = 0;
    for_each_name([&](const std::string& name) {
      struct stat status {};

      if (::lstat(name.c_str(), &status) == 0) sum += static_cast<std::uint64_t>(status.st_size);
    });
    return most_ - std::min(sum, most_);
  }

  /// Removes segments of other fingerprints, and what isn't one, unless a process has them locked. How many bytes
  /// that gave.
  std::uint64_t remove_others() {
    std::uint64_t before = bytes_left();
    for_each_name([&](const std::string& name) {
      const open_file file = open(name);
      if (file && !has_our_fingerprint(file) && file.lock(false)) ::unlink(name.c_str());
    });
    return bytes_left() - before;
  }

  void create_segment(std::uint64_t size) {
    const auto now = std::chrono::system_clock::now().time_since_epoch().count();
    const std::string name =
        directory_ + "/feedline-" + std::to_string(process_) + "-" + std::to_string(now) + ".cache";
    open_file file(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!file) {
      if (errno != EEXIST) stop(name, errno); // else the next value finds another name
      return;
    }
    segment_head head{segment_head::sign, fingerprint_, 0};
    head.check = head.right_check();
    int error = file.lock(false) ? file.resize(size) : errno;
    if (error == 0) error = file.write(&head, sizeof head, 0);
    if (error != 0) {
      ::unlink(name.c_str());
      return stop(name, error);
    }
    const std::lock_guard lock(segments_mutex_);
    own_ =
        segments_
            .emplace_back(std::make_unique<segment>(segment{name, std::move(file), sizeof head, size, true}))
            .get();
  }

  /// Gives back what it doesn't need.
  static void trim(segment& s) {
    s.size = s.end;
    s.file.resize(s.end);
  }

  /// Keeps nothing more.
  void stop(const std::string& name, int error) {
    if (stopped_.exchange(true)) return;
    if (error == ENOSPC || error == EDQUOT || error == EFBIG)
      counters_.full.store(true, std::memory_order_relaxed);
    tell_(to_whom_, "feedline: the cache can't write to " + readable(name) + ": " +
                        std::generic_category().message(error) +
                        "; it keeps nothing more, and the run goes on");
  }

  std::string directory_;
  std::uint64_t most_;
  std::uint64_t fingerprint_;
  cache_counters& counters_;
  tell_trouble tell_;
  void* to_whom_;
  const ::pid_t process_ = ::getpid();
  open_file lock_;
  shared_map<entry> entries_;
  std::mutex segments_mutex_; // of those two:
  std::vector<std::unique_ptr<segment>> segments_;
  clock::time_point refreshed_;
  std::mutex own_mutex_;   // of those:
  segment* own_ = nullptr; // the one that is written
  bool has_no_room_ = false;
  bool has_taken_over_ = false;
  std::atomic<bool> stopped_{false};
};

} // namespace feedline::inline v0::detail
