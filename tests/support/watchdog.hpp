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

/// While it lives, a hang becomes an abort that says what hung. The limit is generous: it tells a hang from a
/// slow machine, and nothing else.
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
  std::thread thread_; // last: it uses the others
};

} // namespace feedline::test
