// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace feedline::test {

/// Aborts with the name of a test that hangs while this object exists: one that has used no processor for a while. On a
/// busy machine a test may take long, but it makes progress. CTest ends one that loops for ever.
class watchdog {
 public:
  explicit watchdog(std::string what, std::chrono::seconds limit = std::chrono::seconds(100))
      : thread_([this, what = std::move(what), limit] {
          std::unique_lock lock(mutex_);
          for (std::clock_t used = std::clock();;) { // of all threads of this process
            if (done_changed_.wait_for(lock, limit, [this] { return done_; })) return;
            if (std::clock() - std::exchange(used, std::clock()) < CLOCKS_PER_SEC / 2) break;
          }
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
