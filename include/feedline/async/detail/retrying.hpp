// SPDX-License-Identifier: MIT
#pragma once
// Calls an asynchronous function again after a failure.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <utility>

#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include <feedline/async/async_context.hpp>
#include <feedline/async/detail/operation.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/retry.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Waits on the event loop of the coroutine that calls it.
inline asio::awaitable<void> pause_for(async_context& c, std::chrono::nanoseconds time) {
  asio::steady_timer timer(c.executor, std::chrono::duration_cast<asio::steady_timer::duration>(time));
  co_await timer.async_wait(asio::use_awaitable);
}

/// An asynchronous function with retries.
template <class F>
class retrying {
 public:
  retrying(F f, const retry& options) : f_(std::move(f)), options_(options) { options_.check(); }

  template <class In>
    requires async_callable<const F, const In&>
  asio::awaitable<awaited_t<const F, const In&>> operator()(const In& item, async_context& c) const {
    const random_generator of_call = c.random;
    random_generator random(key(random_generator(of_call)(), stable_hash("retry")));
    std::chrono::steady_clock::time_point failing_since;
    for (std::size_t attempt = 1;; ++attempt) {
      std::chrono::nanoseconds pause = options_.pause_after(attempt, random);
      try {
        c.random = of_call;
        co_return co_await coroutine_of(f_, item, c);
      } catch (const permanent_error&) {
        throw;
      } catch (const std::exception& error) {
        if (const auto* later = dynamic_cast<const retry_later*>(&error))
          pause = std::max(pause, later->pause);
        if (c.stop.stop_requested()) throw;
        const auto now = std::chrono::steady_clock::now();
        if (attempt == 1) failing_since = now;
        if (!options_.tries_again(attempt, is_outage(std::current_exception()), now - failing_since)) {
          if (attempt == 1) throw;
          std::throw_with_nested(retry_error(error.what(), attempt));
        }
      }
      c.count("retries");
      co_await pause_for(c, pause);
    }
  }

 private:
  F f_;
  retry options_;
};

template <class F>
retrying<F> with_option(F f, const retry& options) {
  return {std::move(f), options};
}

} // namespace feedline::inline FEEDLINE_ABI::detail
