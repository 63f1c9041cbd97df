// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/stop_on_signal.hpp>

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
