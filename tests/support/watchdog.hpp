// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace feedline::test {

/// Aborts with the name of a test that hangs while this object exists. The limit is generous, so that a slow
/// machine doesn't count as a hang.
class watchdog {
 public:
  explicit watchdog(std::string what, std::chrono::seconds limit = std::chrono::seconds(200))
      : thread_([this, what = std::move(what), limit] {
          std::unique_lock lock(mutex_);
          if (done_changed_.wait_for(lock, limit, [this] { return done_; })) return;
          std::fprintf(stderr, "watchdog: `%s` hangs\n", what.c_str());
          std::abort();
        }) {}

  watchdog(const watchdog&) = delete;

  ~watchdog() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    done_changed_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_changed_;
  bool done_ = false;
  std::thread thread_; // the last member, because it uses the others
};

} // namespace feedline::test
