// SPDX-License-Identifier: MIT
#pragma once
// An object store that keeps the parts of another one on disk.
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include <feedline/core/callback.hpp>
#include <feedline/detail/file_draft.hpp>
#include <feedline/source/detail/cache_folder.hpp>
#include <feedline/source/detail/cached_part.hpp>
#include <feedline/source/object_store.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// What the reads of a store share.
struct cache {
  cache(std::shared_ptr<object_store> from, std::string directory, std::uint64_t bytes,
        callback<std::string> notice);

  /// From now on nothing more is written.
  void fail(const std::string& why);

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
             file_draft draft);

  /// Does it, unless another thread does or has done it.
  void run(const std::stop_token& stop);

  /// Nobody waits for it.
  void cancel();

  std::stop_token cancelled() const;

  bool ready() const;

  object_part get(const std::stop_token& stop);

 private:
  void keep(const object_part& part);

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

  ~fetching_thread();

  void add(std::shared_ptr<part_fetch> fetch);

 private:
  void run(const std::stop_token& stop);

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
              std::uint64_t offset, std::size_t count, std::optional<object_info> expected);

  ~cached_read() override;

  bool ready() const override;

  object_part get(const std::stop_token& stop) override;

 private:
  // Looks for the part, or begins to read it. Does neither if another thread or process reads it.
  void look();

  // Finds a kept part, but not one of another version.
  bool find();

  std::unique_ptr<object_read> read(std::uint64_t offset, std::size_t count);

  object_part hit();

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
  explicit cached_store(std::shared_ptr<cache> all);

  bool serves(std::string_view name) const override;

  std::string shown(std::string_view name) const override;

  std::unique_ptr<object_read> read(const std::string& name, std::uint64_t offset, std::size_t count,
                                    const std::optional<object_info>& expected) override;

  std::size_t part_bytes() const override;

  std::size_t bytes_ahead() const override;

  std::string outage() const override;

  void metrics(const std::function<void(const char* name, double value)>& out,
               const std::function<void(const char* name, double value)>& total) const override;

 private:
  const std::shared_ptr<cache> cache_;
  const std::shared_ptr<fetching_thread> thread_ = std::make_shared<fetching_thread>();
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/source/detail/cached_store.ipp>
#endif
