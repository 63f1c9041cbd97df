// SPDX-License-Identifier: MIT
#pragma once
// retry: calls an asynchronous function again after a failure.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include <feedline/async/async_context.hpp>
#include <feedline/async/detail/operation.hpp>

namespace feedline::inline v0 {

/// An option of asynchronous stages: calls the function again when it throws a std::exception, after a pause that
/// grows. The random numbers of the context are the same in each call. The function must take the item by value or as const.
///
/// Options apply in the order in which they are listed: `async_map(f, deadline{2s}, retry{.attempts = 5},
/// deadline{20s})` gives each call 2 s and all of them 20 s.
struct retry {
  std::size_t attempts = 5;                          ///< the most calls, at least 1
  std::chrono::nanoseconds first_pause{100'000'000}; ///< before the second call
  double factor = 2;                                 ///< each pause is this many times the previous one
  double jitter = 0.2; ///< varies each pause by up to this fraction, keyed by the sample
  std::chrono::nanoseconds longest_pause = std::chrono::minutes(1); ///< no pause is longer, jitter apart
};

/// Why a call failed finally, after several attempts; nests the last attempt's error (std::rethrow_if_nested).
struct retry_error : std::runtime_error {
  /// "connection refused; tried 5 times"
  retry_error(const std::string& last_error, std::size_t tried)
      : std::runtime_error(last_error + "; tried " + std::to_string(tried) + " times"), attempts(tried) {}

  std::size_t attempts; ///< calls
};

/// An error that the same call would meet again, such as a missing file: retry doesn't repeat a call that throws it.
struct permanent_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An error after which the next call should wait at least that long, as a server can ask for: retry obeys.
struct retry_later : std::runtime_error {
  /// `what`: the error; `wait`: before the next call.
  retry_later(const std::string& what, std::chrono::nanoseconds wait)
      : std::runtime_error(what), pause(wait) {}

  std::chrono::nanoseconds pause; ///< before the next call
};

namespace detail {

inline void check_option(const retry& r) {
  if (r.attempts < 1) throw std::invalid_argument("feedline::retry: attempts is 0, but must be at least 1");
  if (r.first_pause.count() < 0 || r.longest_pause.count() < 0)
    throw std::invalid_argument("feedline::retry: a pause is negative");
  if (!(r.factor >= 1 && r.factor <= 1e6))
    throw std::invalid_argument("feedline::retry: factor must be from 1 to 1,000,000");
  if (!(r.jitter >= 0 && r.jitter <= 1))
    throw std::invalid_argument("feedline::retry: jitter must be from 0 to 1");
}

/// The pause before call number `attempt` + 1.
inline std::chrono::nanoseconds pause_after(const retry& r, std::size_t attempt, random_generator& random) {
  constexpr double longest = 4e18; // ns, which jitter may double
  const auto first = static_cast<double>(r.first_pause.count());
  double pause = std::min(static_cast<double>(r.longest_pause.count()), longest);
  if (const double growth = std::pow(r.factor, static_cast<double>(attempt - 1)); growth < pause / first)
    pause = first * growth;
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>((first > 0 ? pause : 0) * random.uniform(1 - r.jitter, 1 + r.jitter)));
}

/// Waits on the event loop of the coroutine that calls it.
inline asio::awaitable<void> pause_for(async_context& c, std::chrono::nanoseconds time) {
  asio::steady_timer timer(c.executor, std::chrono::duration_cast<asio::steady_timer::duration>(time));
  co_await timer.async_wait(asio::use_awaitable);
}

/// An asynchronous function with retries.
template <class F>
class retrying {
 public:
  retrying(F f, const retry& options) : f_(std::move(f)), options_(options) { check_option(options); }

  template <class In>
    requires async_callable<const F, const In&>
  asio::awaitable<awaited_t<const F, const In&>> operator()(const In& item, async_context& c) const {
    const random_generator of_call = c.random;
    random_generator random(key(random_generator(of_call)(), stable_hash("retry")));
    for (std::size_t attempt = 1;; ++attempt) {
      std::chrono::nanoseconds pause = pause_after(options_, attempt, random);
      try {
        c.random = of_call;
        co_return co_await call_async(f_, item, c);
      } catch (const permanent_error&) {
        throw;
      } catch (const std::exception& error) {
        if (const auto* later = dynamic_cast<const retry_later*>(&error))
          pause = std::max(pause, later->pause);
        if (c.stop.stop_requested()) throw;
        if (attempt == options_.attempts) {
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

} // namespace detail

} // namespace feedline::inline v0
