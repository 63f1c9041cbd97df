// SPDX-License-Identifier: MIT
#pragma once
// Asynchronous functions for tests.
#include <chrono>
#include <cstdint>

#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include <feedline/async/async_context.hpp>

namespace feedline::test {

/// Waits on the coroutine's event loop.
inline asio::awaitable<void> pause(async_context& c, std::chrono::nanoseconds time) {
  asio::steady_timer timer(c.executor, std::chrono::duration_cast<asio::steady_timer::duration>(time));
  co_await timer.async_wait(asio::use_awaitable);
}

/// Waits up to 300 microseconds, keyed by the sample.
inline asio::awaitable<void> random_pause(async_context& c) {
  return pause(c, std::chrono::microseconds(c.random.below(300)));
}

/// Waits for ever, as far as a test is concerned: until it is cancelled.
inline asio::awaitable<void> wait_for_cancellation(async_context& c) {
  return pause(c, std::chrono::hours(24));
}

} // namespace feedline::test
