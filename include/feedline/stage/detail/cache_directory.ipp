// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/stage/detail/cache_directory.hpp>

#include <algorithm>
#include <new>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE directory_table::directory_table(std::string directory, std::uint64_t max_bytes,
                                                 std::uint64_t fingerprint, cache_counters& counters,
                                                 callback<std::string> on_notice)
    : directory_(std::move(directory)),
      max_bytes_(max_bytes),
      fingerprint_(fingerprint),
      counters_(counters),
      on_notice_(std::move(on_notice)) {
  make_directories(directory_);
  const std::string name = directory_ + "/lock";
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

FEEDLINE_INLINE std::span<const std::byte> directory_table::find(const cache_key& k,
                                                                 scratch_memory& scratch) {
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

FEEDLINE_INLINE void directory_table::forget(const cache_key& k) {
  if (const auto found = entries_.find(k)) drop(k, *found);
}

FEEDLINE_INLINE void directory_table::keep(const cache_key& k, std::byte* value, std::size_t size) {
  record head{record::sign, k, size, hash_of_block({value, size}), 0};
  head.check = head.right_check();
  std::memcpy(value - sizeof head, &head, sizeof head);
  const std::size_t taken = sizeof head + size;
  const auto [to, offset] = reserve(taken);
  if (!to) return;
  if (const int error = to->file.write(value - sizeof head, taken, offset)) return stop(to->name, error);
  add(k, {to, offset, size});
}

FEEDLINE_INLINE bool directory_table::is_cache_file(std::string_view name) noexcept {
  return name.starts_with("feedline-") && name.ends_with(".cache");
}

FEEDLINE_INLINE open_file directory_table::open(const std::string& name) const {
  return open_file(::open(name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
}

FEEDLINE_INLINE std::vector<directory_table::cache_file*> directory_table::open_new_files() {
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

FEEDLINE_INLINE void directory_table::take_over() {
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

FEEDLINE_INLINE void directory_table::scan(cache_file& s) {
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

FEEDLINE_INLINE bool directory_table::refresh() {
  const std::unique_lock lock(files_mutex_, std::try_to_lock);
  if (!lock || clock::now() - refreshed_ < std::chrono::seconds(1)) return false;
  refreshed_ = clock::now();
  open_new_files();
  for (const auto& s : files_)
    if (!s->is_ours) scan(*s);
  return true;
}

FEEDLINE_INLINE void directory_table::add(const cache_key& k, const entry& e) {
  try {
    if (entries_.insert(k, e)) counters_.bytes.fetch_add(sizeof(record) + e.size, std::memory_order_relaxed);
  } catch (const std::bad_alloc&) { // then it won't be found
  }
}

FEEDLINE_INLINE void directory_table::drop(const cache_key& k, const entry& e) {
  if (!entries_.erase(k, e)) return;
  counters_.bytes.fetch_sub(sizeof(record) + e.size, std::memory_order_relaxed);
  if (!e.in->is_ours || !is_usable()) return;
  record head{record::sign_of_damaged, k, e.size, 0, 0};
  head.check = head.right_check();
  e.in->file.write(&head, sizeof head, e.offset);
}

FEEDLINE_INLINE std::pair<directory_table::cache_file*, std::uint64_t>
directory_table::reserve(std::uint64_t count) {
  const std::lock_guard lock(own_mutex_);
  if (stopped_.load(std::memory_order_relaxed)) return {};
  if ((!own_ || own_->size - own_->end < count) && !begin_file(count)) return {};
  return {own_, std::exchange(own_->end, own_->end + count)};
}

FEEDLINE_INLINE bool directory_table::begin_file(std::uint64_t count) {
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

FEEDLINE_INLINE std::uint64_t directory_table::bytes_left() const {
  std::uint64_t sum = 0;
  for_each_name([&](const std::string& name) {
    struct stat status {};

    if (::lstat(name.c_str(), &status) == 0) sum += static_cast<std::uint64_t>(status.st_size);
  });
  return max_bytes_ - std::min(sum, max_bytes_);
}

FEEDLINE_INLINE std::uint64_t directory_table::remove_others() {
  std::uint64_t before = bytes_left();
  for_each_name([&](const std::string& name) {
    const open_file file = open(name);
    if (file && !has_our_fingerprint(file) && file.lock(false)) ::unlink(name.c_str());
  });
  return bytes_left() - before;
}

FEEDLINE_INLINE void directory_table::create_file(std::uint64_t size) {
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

FEEDLINE_INLINE void directory_table::stop(const std::string& name, int error) {
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

} // namespace feedline::inline FEEDLINE_ABI::detail
