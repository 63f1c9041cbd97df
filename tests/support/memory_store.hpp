// SPDX-License-Identifier: MIT
#pragma once
// An object store in memory, with failures on request.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <feedline/remote/object_store.hpp>

namespace feedline::test {

/// Serves names that begin with `mem://`. Each read is answered when its get() is called, after `before`.
class memory_store final : public object_store {
 public:
  struct request {
    std::string name;
    std::uint64_t offset;
    std::size_t count;
  };

  memory_store(std::size_t part_bytes, std::size_t bytes_ahead)
      : part_bytes_(part_bytes), bytes_ahead_(bytes_ahead) {}

  /// Adds or replaces an object. Without a version, it gets one of its own.
  void put(const std::string& name, std::string bytes, std::string version = {}) {
    const std::lock_guard lock(mutex_);
    if (version.empty()) version = "v" + std::to_string(++versions_);
    objects_[name] = {std::make_shared<const std::string>(std::move(bytes)), std::move(version)};
  }

  void remove(const std::string& name) {
    const std::lock_guard lock(mutex_);
    objects_.erase(name);
  }

  using hook = std::function<void(const request&, const std::stop_token&)>;

  /// Sets what is called before each answer, on the thread that waits for it; it may wait or throw object_error.
  void before(hook call) {
    const std::lock_guard lock(mutex_);
    before_ = std::move(call);
  }

  /// What was requested so far.
  std::vector<request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

  /// How many reads exist.
  std::size_t reads_open() const { return open_.load(); }

  bool serves(std::string_view name) const override { return name.starts_with("mem://"); }

  std::unique_ptr<object_read> read(const std::string& name, std::uint64_t offset, std::size_t count,
                                    const std::optional<object_info>& expected) override {
    const std::lock_guard lock(mutex_);
    requests_.push_back({name, offset, count});
    return std::make_unique<answer>(*this, requests_.back(), expected);
  }

  std::size_t part_bytes() const override { return part_bytes_; }

  std::size_t bytes_ahead() const override { return bytes_ahead_; }

 private:
  struct object {
    std::shared_ptr<const std::string> bytes;
    std::string version;
  };

  class answer final : public object_read {
   public:
    answer(memory_store& store, request wanted, std::optional<object_info> expected)
        : store_(store), wanted_(std::move(wanted)), expected_(std::move(expected)) {
      ++store_.open_;
    }

    ~answer() override { --store_.open_; }

    bool ready() const override { return !store_.before_answer(); }

    object_part get(const std::stop_token& stop) override {
      if (const hook before = store_.before_answer()) before(wanted_, stop);
      if (stop.stop_requested()) throw object_error(wanted_.name + ": stopped");
      const std::lock_guard lock(store_.mutex_);
      const auto found = store_.objects_.find(wanted_.name);
      if (found == store_.objects_.end()) throw object_missing(wanted_.name + ": no such object");
      const object& o = found->second;
      const object_info info{o.bytes->size(), o.version};
      if (expected_ && *expected_ != info) throw object_error(wanted_.name + ": has changed");
      const std::size_t begin = std::min<std::size_t>(wanted_.offset, o.bytes->size());
      const std::size_t count = std::min(wanted_.count, o.bytes->size() - begin);
      return {info, std::as_bytes(std::span(*o.bytes)).subspan(begin, count), o.bytes};
    }

   private:
    memory_store& store_;
    request wanted_;
    std::optional<object_info> expected_;
  };

  hook before_answer() const {
    const std::lock_guard lock(mutex_);
    return before_;
  }

  const std::size_t part_bytes_;
  const std::size_t bytes_ahead_;
  mutable std::mutex mutex_;
  std::map<std::string, object> objects_;
  std::vector<request> requests_;
  hook before_;
  int versions_ = 0;
  std::atomic<std::size_t> open_{0};
};

} // namespace feedline::test
