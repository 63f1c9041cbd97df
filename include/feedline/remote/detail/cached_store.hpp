// SPDX-License-Identifier: MIT
#pragma once
// An object store that keeps the parts of another one on disk.
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <feedline/core/callback.hpp>
#include <feedline/detail/file_draft.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/remote/detail/cache_folder.hpp>
#include <feedline/remote/detail/cached_part.hpp>
#include <feedline/remote/detail/wait_for_draft.hpp>
#include <feedline/remote/object_store.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// What the reads of a store share.
struct cache {
  cache(std::shared_ptr<object_store> from, std::string directory, std::uint64_t bytes,
        callback<std::string> notice)
      : inner(std::move(from)), folder(std::move(directory), bytes), on_notice(std::move(notice)) {}

  /// From now on nothing more is written.
  void fail(const std::string& why) {
    if (is_broken.exchange(true) || !on_notice) return;
    try {
      on_notice("the cache of shards is used as it is, but nothing is added to it: " + why);
    } catch (...) { // a notice isn't worth a failure
    }
  }

  const std::shared_ptr<object_store> inner;
  cache_folder folder;
  const callback<std::string> on_notice;
  std::atomic<bool> is_broken{false};
  std::atomic<std::uint64_t> hits{0}, misses{0}, hit_bytes{0}, damaged{0};
};

/// One part that this process reads from the other store and writes to the folder. Whoever comes first does it: the
/// thread that needs the part, or the one of the store. Otherwise two processes could wait for parts that the other one
/// has requested ahead.
class part_fetch {
 public:
  part_fetch(std::shared_ptr<cache> all, const part_key& k, std::unique_ptr<object_read> from,
             file_draft draft)
      : cache_(std::move(all)), key_(k), read_(std::move(from)), draft_(std::move(draft)) {}

  /// Does it, unless another thread does or has done it.
  void run(const std::stop_token& stop) {
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

  /// Nobody waits for it.
  void cancel() {
    cancelled_.request_stop();
    run(cancelled_.get_token());
  }

  std::stop_token cancelled() const { return cancelled_.get_token(); }

  bool ready() const {
    const std::lock_guard lock(mutex_);
    return is_done_ || (!has_begun_ && read_->ready());
  }

  object_part get(const std::stop_token& stop) {
    run(stop);
    std::unique_lock lock(mutex_);
    if (!done_.wait(lock, stop, [this] { return is_done_; })) throw object_error("the run was stopped");
    if (failure_) std::rethrow_exception(failure_);
    return *std::move(part_);
  }

 private:
  void keep(const object_part& part) {
    if (part.object.version.empty() || cache_->is_broken) return; // it couldn't be recognised again
    const part_record record(key_, part);
    const std::string path = cache_->folder.part_path(key_);
    if (const int failed = draft_->keep(path, {part.bytes, std::as_bytes(std::span(&record, 1))});
        failed != 0)
      cache_->fail(std::generic_category().message(failed));
    else cache_->folder.added(part.bytes.size() + sizeof(part_record));
  }

  const std::shared_ptr<cache> cache_;
  const part_key key_;
  std::unique_ptr<object_read> read_;
  std::optional<file_draft> draft_;
  std::stop_source cancelled_;
  mutable std::mutex mutex_; // guards the members below
  std::condition_variable_any done_;
  bool has_begun_ = false;
  bool is_done_ = false;
  std::optional<object_part> part_;
  std::exception_ptr failure_;
};

/// The thread that finishes fetches which no other thread has come to.
class fetching_thread {
 public:
  fetching_thread() = default;
  fetching_thread(const fetching_thread&) = delete;

  ~fetching_thread() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    const std::lock_guard lock(mutex_);
    if (current_) current_->cancel();
  }

  void add(std::shared_ptr<part_fetch> fetch) {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    queue_.push_back(std::move(fetch));
    added_.notify_one();
  }

 private:
  void run(const std::stop_token& stop) {
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

  std::mutex mutex_; // guards the members below
  std::condition_variable_any added_;
  std::deque<std::shared_ptr<part_fetch>> queue_;
  std::shared_ptr<part_fetch> current_;
  std::jthread thread_; // last: it uses the others
};

class cached_read final : public object_read {
 public:
  /// `thread`: takes what it fetches.
  cached_read(std::shared_ptr<cache> all, std::weak_ptr<fetching_thread> thread, std::string name,
              std::uint64_t offset, std::size_t count, std::optional<object_info> expected)
      : cache_(std::move(all)),
        thread_(std::move(thread)),
        name_(std::move(name)),
        offset_(offset),
        count_(count),
        expected_(std::move(expected)),
        key_(name_, offset, count) {
    look();
  }

  ~cached_read() override {
    if (fetch_) fetch_->cancel();
  }

  bool ready() const override {
    if (fetch_) return fetch_->ready();
    return kept_ ? expected_.has_value() : plain_ && plain_->ready();
  }

  object_part get(const std::stop_token& stop) override {
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
        if (!wait_for_draft(cache_->folder.draft_path(key_), stop)) throw object_error("the run was stopped");
        look();
      } catch (const std::system_error& error) {
        cache_->fail(error.what());
        plain_ = read(offset_, count_);
      }
    }
  }

 private:
  // Looks for the part, or begins to read it. Does neither if another thread or process reads it.
  void look() {
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

  // Finds a kept part, but not one of another version.
  bool find() {
    std::optional<kept_part> kept = kept_part::find(cache_->folder.part_path(key_), key_);
    if (kept && expected_ && !kept->is_of(*expected_)) kept.reset();
    if (kept && !expected_ && !question_) question_ = read(0, 0);
    kept_ = std::move(kept);
    return kept_.has_value();
  }

  std::unique_ptr<object_read> read(std::uint64_t offset, std::size_t count) {
    auto begun = cache_->inner->read(name_, offset, count, expected_);
    if (!begun)
      throw object_error(cache_->inner->shown(name_) + ": its store began no read at offset " +
                         std::to_string(offset));
    return begun;
  }

  object_part hit() {
    object_part part = kept_->part(*expected_);
    cache_folder::used(cache_->folder.part_path(key_));
    ++cache_->hits;
    cache_->hit_bytes += part.bytes.size();
    return part;
  }

  const std::shared_ptr<cache> cache_;
  const std::weak_ptr<fetching_thread> thread_;
  const std::string name_;
  const std::uint64_t offset_;
  const std::size_t count_;
  std::optional<object_info> expected_;
  const part_key key_;
  std::optional<kept_part> kept_;
  std::unique_ptr<object_read> question_; // for the version, if there is a kept part
  std::shared_ptr<part_fetch> fetch_;
  std::unique_ptr<object_read> plain_; // past the cache
};

class cached_store final : public object_store {
 public:
  explicit cached_store(std::shared_ptr<cache> all) : cache_(std::move(all)) {}

  bool serves(std::string_view name) const override { return cache_->inner->serves(name); }

  std::string shown(std::string_view name) const override { return cache_->inner->shown(name); }

  std::unique_ptr<object_read> read(const std::string& name, std::uint64_t offset, std::size_t count,
                                    const std::optional<object_info>& expected) override {
    if (count == 0) return cache_->inner->read(name, offset, count, expected);
    return std::make_unique<cached_read>(cache_, thread_, name, offset, count, expected);
  }

  std::size_t part_bytes() const override { return cache_->inner->part_bytes(); }

  std::size_t bytes_ahead() const override { return cache_->inner->bytes_ahead(); }

  std::string outage() const override { return cache_->inner->outage(); }

  void metrics(const std::function<void(const char* name, double value)>& out,
               const std::function<void(const char* name, double value)>& total) const override {
    cache_->inner->metrics(out, total);
    out("bytes in the cache", static_cast<double>(cache_->folder.bytes()));
    total("cache hits", static_cast<double>(cache_->hits.load()));
    total("cache misses", static_cast<double>(cache_->misses.load()));
    total("damaged parts in the cache", static_cast<double>(cache_->damaged.load()));
    total("bytes from the cache", static_cast<double>(cache_->hit_bytes.load()));
  }

 private:
  const std::shared_ptr<cache> cache_;
  const std::shared_ptr<fetching_thread> thread_ = std::make_shared<fetching_thread>();
};

} // namespace feedline::inline FEEDLINE_ABI::detail
