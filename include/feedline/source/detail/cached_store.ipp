// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/detail/cached_store.hpp>

#include <span>
#include <system_error>
#include <utility>

#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE cache::cache(std::shared_ptr<object_store> from, std::string directory, std::uint64_t bytes,
                             callback<std::string> notice)
    : inner(std::move(from)), folder(std::move(directory), bytes), on_notice(std::move(notice)) {}

FEEDLINE_INLINE void cache::fail(const std::string& why) {
  if (is_broken.exchange(true) || !on_notice) return;
  try {
    on_notice("the cache of shards is used as it is, but nothing is added to it: " + why);
  } catch (...) { // a notice isn't worth a failure
  }
}

FEEDLINE_INLINE part_fetch::part_fetch(std::shared_ptr<cache> all, const part_key& k,
                                       std::unique_ptr<object_read> from, file_draft draft)
    : cache_(std::move(all)), key_(k), read_(std::move(from)), draft_(std::move(draft)) {}

FEEDLINE_INLINE void part_fetch::run(const std::stop_token& stop) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(has_begun_, true)) return;
  }
  std::optional<object_part> part;
  std::exception_ptr failure;
  try {
    part = read_->get(stop);
    keep(*part);
  } catch (...) {
    failure = std::current_exception();
  }
  read_.reset();
  draft_.reset();
  const std::lock_guard lock(mutex_);
  part_ = std::move(part);
  failure_ = std::move(failure);
  is_done_ = true;
  done_.notify_all();
}

FEEDLINE_INLINE void part_fetch::cancel() {
  cancelled_.request_stop();
  run(cancelled_.get_token());
}

FEEDLINE_INLINE std::stop_token part_fetch::cancelled() const { return cancelled_.get_token(); }

FEEDLINE_INLINE bool part_fetch::ready() const {
  const std::lock_guard lock(mutex_);
  return is_done_ || (!has_begun_ && read_->ready());
}

FEEDLINE_INLINE object_part part_fetch::get(const std::stop_token& stop) {
  run(stop);
  std::unique_lock lock(mutex_);
  if (!done_.wait(lock, stop, [this] { return is_done_; })) throw object_error("the run was stopped");
  if (failure_) std::rethrow_exception(failure_);
  return *std::move(part_);
}

FEEDLINE_INLINE void part_fetch::keep(const object_part& part) {
  if (part.object.version.empty() || cache_->is_broken) return; // it couldn't be recognised again
  const part_record record(key_, part);
  const std::string path = cache_->folder.part_path(key_);
  if (const int failed = draft_->keep(path, {part.bytes, std::as_bytes(std::span(&record, 1))}); failed != 0)
    cache_->fail(std::generic_category().message(failed));
  else cache_->folder.added(part.bytes.size() + sizeof(part_record));
}

FEEDLINE_INLINE fetching_thread::~fetching_thread() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  const std::lock_guard lock(mutex_);
  if (current_) current_->cancel();
}

FEEDLINE_INLINE void fetching_thread::add(std::shared_ptr<part_fetch> fetch) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  queue_.push_back(std::move(fetch));
  added_.notify_one();
}

FEEDLINE_INLINE void fetching_thread::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (added_.wait(lock, stop, [this] { return !queue_.empty(); }) && !stop.stop_requested()) {
    current_ = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    current_->run(current_->cancelled());
    lock.lock();
    current_.reset();
  }
}

FEEDLINE_INLINE cached_read::cached_read(std::shared_ptr<cache> all, std::weak_ptr<fetching_thread> thread,
                                         std::string name, std::uint64_t offset, std::size_t count,
                                         std::optional<object_info> expected)
    : cache_(std::move(all)),
      thread_(std::move(thread)),
      name_(std::move(name)),
      offset_(offset),
      count_(count),
      expected_(std::move(expected)),
      key_(cache_->inner->shown(name_), offset, count) {
  look();
}

FEEDLINE_INLINE cached_read::~cached_read() {
  if (fetch_) fetch_->cancel();
}

FEEDLINE_INLINE bool cached_read::ready() const {
  if (fetch_) return fetch_->ready();
  return kept_ ? expected_.has_value() : plain_ && plain_->ready();
}

FEEDLINE_INLINE object_part cached_read::get(const std::stop_token& stop) {
  for (;;) {
    if (kept_) {
      if (!expected_) expected_ = question_->get(stop).object;
      if (kept_->is_of(*expected_)) {
        if (kept_->is_intact()) return hit();
        ++cache_->damaged;
        const std::string path = cache_->folder.part_path(key_);
        if (!cache_->folder.remove(path, kept_->file_bytes())) {
          cache_->fail(readable(path) + " is damaged and can't be removed");
          kept_.reset();
          plain_ = read(offset_, count_);
          continue;
        }
      }
      look(); // it is damaged, or of another version
      continue;
    }
    if (fetch_ || plain_) {
      ++cache_->misses;
      return fetch_ ? fetch_->get(stop) : plain_->get(stop);
    }
    try {
      if (!file_draft::wait(cache_->folder.draft_path(key_), stop)) throw object_error("the run was stopped");
      look();
    } catch (const std::system_error& error) {
      cache_->fail(error.what());
      plain_ = read(offset_, count_);
    }
  }
}

FEEDLINE_INLINE void cached_read::look() {
  if (find()) return;
  std::optional<file_draft> draft;
  if (!cache_->is_broken && cache_->folder.has_room_for(count_)) {
    try {
      draft = file_draft::begin(cache_->folder.draft_path(key_));
      if (!draft || find()) return; // it may have become whole in between
    } catch (const std::system_error& error) {
      cache_->fail(error.what());
    }
  }
  if (!draft) {
    plain_ = read(offset_, count_);
    return;
  }
  fetch_ = std::make_shared<part_fetch>(cache_, key_, read(offset_, count_), std::move(*draft));
  if (const auto thread = thread_.lock()) thread->add(fetch_);
}

FEEDLINE_INLINE bool cached_read::find() {
  std::optional<kept_part> kept = kept_part::find(cache_->folder.part_path(key_), key_);
  if (kept && expected_ && !kept->is_of(*expected_)) kept.reset();
  if (kept && !expected_ && !question_) question_ = read(0, 0);
  kept_ = std::move(kept);
  return kept_.has_value();
}

FEEDLINE_INLINE std::unique_ptr<object_read> cached_read::read(std::uint64_t offset, std::size_t count) {
  auto begun = cache_->inner->read(name_, offset, count, expected_);
  if (!begun)
    throw object_error(cache_->inner->shown(name_) + ": its store began no read at offset " +
                       std::to_string(offset));
  return begun;
}

FEEDLINE_INLINE object_part cached_read::hit() {
  object_part part = kept_->part(*expected_);
  cache_folder::used(cache_->folder.part_path(key_));
  ++cache_->hits;
  cache_->hit_bytes += part.bytes.size();
  return part;
}

FEEDLINE_INLINE cached_store::cached_store(std::shared_ptr<cache> all) : cache_(std::move(all)) {}

FEEDLINE_INLINE bool cached_store::serves(std::string_view name) const { return cache_->inner->serves(name); }

FEEDLINE_INLINE std::string cached_store::shown(std::string_view name) const {
  return cache_->inner->shown(name);
}

FEEDLINE_INLINE std::unique_ptr<object_read> cached_store::read(const std::string& name, std::uint64_t offset,
                                                                std::size_t count,
                                                                const std::optional<object_info>& expected) {
  if (count == 0) return cache_->inner->read(name, offset, count, expected);
  return std::make_unique<cached_read>(cache_, thread_, name, offset, count, expected);
}

FEEDLINE_INLINE std::size_t cached_store::part_bytes() const { return cache_->inner->part_bytes(); }

FEEDLINE_INLINE std::size_t cached_store::bytes_ahead() const { return cache_->inner->bytes_ahead(); }

FEEDLINE_INLINE std::string cached_store::outage() const { return cache_->inner->outage(); }

FEEDLINE_INLINE void
cached_store::metrics(const std::function<void(const char* name, double value)>& out,
                      const std::function<void(const char* name, double value)>& total) const {
  cache_->inner->metrics(out, total);
  out("bytes in the cache", static_cast<double>(cache_->folder.bytes()));
  total("cache hits", static_cast<double>(cache_->hits.load()));
  total("cache misses", static_cast<double>(cache_->misses.load()));
  total("damaged parts in the cache", static_cast<double>(cache_->damaged.load()));
  total("bytes from the cache", static_cast<double>(cache_->hit_bytes.load()));
}

} // namespace feedline::inline FEEDLINE_ABI::detail
