// SPDX-License-Identifier: MIT
#pragma once
// Ctrl-C as a stop token.
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <stdexcept>
#include <stop_token>
#include <system_error>
#include <thread>

#include <semaphore.h>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// While it exists, the first of its signals requests a stop instead of killing the process; a second one
/// kills as usual. The destructor restores the former handlers. Only one object at a time.
///
///     stop_on_signal interrupt(SIGINT, SIGTERM);
///     for (auto& b : p.infinite({.stop = interrupt.token()})) …
class stop_on_signal {
  static constexpr std::size_t max_signals = 8;

 public:
  /// Throws std::logic_error if another one exists, std::system_error for a number that isn't a signal or a
  /// signal that can't be caught.
  template <class... Signals>
    requires(sizeof...(Signals) > 0 && sizeof...(Signals) <= max_signals)
  explicit stop_on_signal(Signals... signals)
      : signals_{static_cast<int>(signals)...}, count_(sizeof...(Signals)) {
    if (exists_.exchange(true)) throw std::logic_error("feedline::stop_on_signal: another one exists");
    ::sem_init(&arrived_, 0, 0);
    active_.store(this);
    std::size_t installed = 0;
    try {
      waiter_ = std::thread([this] { wait(); });

      struct sigaction action {};

      action.sa_handler = &on_signal;
      action.sa_flags = SA_RESTART;
      for (; installed < count_; ++installed)
        if (::sigaction(signals_[installed], &action, &former_[installed]) != 0)
          throw std::system_error(errno, std::generic_category(), "feedline::stop_on_signal");
    } catch (...) {
      release(installed);
      throw;
    }
  }

  stop_on_signal(const stop_on_signal&) = delete;

  ~stop_on_signal() { release(count_); }

  /// Requests a stop when the first signal has arrived.
  std::stop_token token() const;

  /// The signal that arrived; 0: none yet.
  int signal() const noexcept { return came_.load(std::memory_order_relaxed); }

 private:
  // Uses only functions that POSIX allows in a handler: sigaction, sem_post, lock-free atomics.
  static void on_signal(int number);

  // Stop callbacks may take locks, which a handler must not do: a thread calls them.
  void wait();

  void release(std::size_t installed);

  void restore(std::size_t installed) {
    for (std::size_t i = 0; i < installed; ++i) ::sigaction(signals_[i], &former_[i], nullptr);
  }

  // Visible, so that they exist once in a program that hides its symbols and links feedline as a shared library.
  [[gnu::visibility("default")]] static inline std::atomic<bool> exists_{false};
  [[gnu::visibility("default")]] static inline std::atomic<stop_on_signal*> active_{nullptr};
  // Threads that are in the handler.
  [[gnu::visibility("default")]] static inline std::atomic<int> handling_{0};

  std::array<int, max_signals> signals_;
  std::size_t count_;
  std::array<struct sigaction, max_signals> former_{};
  std::stop_source source_;
  ::sem_t arrived_;
  std::atomic<int> came_{0};
  std::atomic<bool> ending_{false};
  std::thread waiter_;
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE std::stop_token stop_on_signal::token() const { return source_.get_token(); }

FEEDLINE_INLINE void stop_on_signal::on_signal(int number) {
  const int error = errno;
  handling_.fetch_add(1);
  if (stop_on_signal* self = active_.load()) {
    struct sigaction as_usual {};

    as_usual.sa_handler = SIG_DFL;
    for (std::size_t i = 0; i < self->count_; ++i) ::sigaction(self->signals_[i], &as_usual, nullptr);
    self->came_.store(number, std::memory_order_relaxed);
    ::sem_post(&self->arrived_);
  }
  handling_.fetch_sub(1);
  errno = error;
}

FEEDLINE_INLINE void stop_on_signal::wait() {
  while (::sem_wait(&arrived_) != 0) {
  }
  if (!ending_.load()) source_.request_stop();
}

FEEDLINE_INLINE void stop_on_signal::release(std::size_t installed) {
  restore(installed);
  // Another thread may still be in the handler: it has incremented handling_ before it read active_.
  active_.store(nullptr);
  while (handling_.load() != 0) std::this_thread::yield();
  if (signal() != 0) restore(installed); // the handler may have undone it
  ending_.store(true);
  ::sem_post(&arrived_);
  if (waiter_.joinable()) waiter_.join();
  ::sem_destroy(&arrived_);
  exists_.store(false);
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
