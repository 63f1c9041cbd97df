// SPDX-License-Identifier: MIT
#pragma once
// Detects that a thread sleeps, without waiting for time to pass. Linux only.
#include <atomic>
#include <ctime>
#include <fstream>
#include <pthread.h>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>

namespace feedline::test {

/// A thread that makes one call, which should park it.
class parking_thread {
 public:
  /// Runs `before` and then `call` in a new thread; the destructor joins it.
  template <class Before, class Call>
  parking_thread(Before before, Call call)
      : thread_([this, before = std::move(before), call = std::move(call)]() mutable {
          before();
          id_.store(::gettid());
          call();
          done_.store(true);
        }) {}

  template <class Call>
  explicit parking_thread(Call call) : parking_thread([] {}, std::move(call)) {}

  /// Returns when the thread sleeps inside its call. Hangs if it never sleeps.
  void await_parked() const {
    for (int times = 0; times < 3; std::this_thread::yield()) times = state() == 'S' ? times + 1 : 0;
  }

  /// True once the call has returned.
  bool done() const { return done_.load(); }

  /// The number of the thread's context switches.
  long switches() const {
    std::ifstream status(folder() + "/status");
    long sum = 0;
    for (std::string line; std::getline(status, line);)
      if (const auto at = line.find("ctxt_switches:"); at != std::string::npos)
        sum += std::stol(line.substr(at + 14));
    return sum;
  }

  /// Nanoseconds of processor time that the thread has used.
  long cpu_time() {
    clockid_t clock{};
    std::timespec time{};
    ::pthread_getcpuclockid(thread_.native_handle(), &clock);
    ::clock_gettime(clock, &time);
    return time.tv_sec * 1'000'000'000 + time.tv_nsec;
  }

 private:
  std::string folder() const { return "/proc/self/task/" + std::to_string(id_.load()); }

  char state() const {
    if (id_.load() == 0) return '?';
    std::ifstream file(folder() + "/stat");
    std::ostringstream text;
    text << file.rdbuf();
    const auto name_end = text.str().rfind(") ");
    return name_end == std::string::npos ? '?' : text.str()[name_end + 2];
  }

  std::atomic<pid_t> id_{0};
  std::atomic<bool> done_{false};
  std::jthread thread_; // the last member, because it uses the others
};

/// Keeps this thread busy for some milliseconds of its own processor time.
inline void burn(int milliseconds) {
  const auto spent = [] {
    std::timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1'000'000;
  };
  for (const auto start = spent(); spent() - start < milliseconds;) {
  }
}

} // namespace feedline::test
