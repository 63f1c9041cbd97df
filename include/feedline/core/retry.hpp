// SPDX-License-Identifier: MIT
#pragma once
// retry: how often something that failed is tried again, and after which pauses.
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>

#include <feedline/core/random.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// An option of what reads from a network: tries again after a failure, after a pause that grows.
///
/// Of asynchronous stages: calls the function again when it throws a std::exception. The random numbers of the context
/// are the same in each call. The function must take the item by value or as const. Options apply in the order in which
/// they are listed: `async_map(f, deadline{2s}, retry{.attempts = 5}, deadline{20s})` gives each call 2 s and all of
/// them 20 s.
struct retry {
  std::size_t attempts = 5; ///< the most attempts, at least 1, unless there is an outage
  std::chrono::nanoseconds first_pause{100'000'000}; ///< before the second attempt
  double factor = 2;                                 ///< each pause is this many times the previous one
  double jitter = 0.2; ///< varies each pause by up to this fraction, keyed by what is tried
  std::chrono::nanoseconds longest_pause = std::chrono::minutes(1); ///< no pause is longer, jitter apart
  /// In an outage (outage_error, and failed connections and busy servers of remote()): tries again for that long after
  /// the first failure, however many attempts that takes.
  std::chrono::nanoseconds for_at_most = std::chrono::minutes(5);

  /// Throws std::invalid_argument if a value is out of range.
  void check() const;

  /// Whether there is another attempt after `attempts_made` failed ones, the first of them `failing_for` ago.
  bool tries_again(std::size_t attempts_made, bool in_outage,
                   std::chrono::nanoseconds failing_for) const noexcept {
    return attempts_made < attempts || (in_outage && failing_for < for_at_most);
  }

  /// The pause after this many attempts, at least one.
  std::chrono::nanoseconds pause_after(std::size_t attempts_made, random_generator& random) const;
};

/// Why something failed finally, after several attempts; nests the last attempt's error (std::rethrow_if_nested).
struct retry_error : std::runtime_error {
  /// "connection refused; tried 5 times"
  retry_error(const std::string& last_error, std::size_t tried);

  std::size_t attempts; ///< how many
};

/// An error that the same call would meet again, such as a missing file: retry doesn't repeat a call that throws it.
struct permanent_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An error after which the next call should wait at least that long, as a server can ask for: retry obeys.
struct retry_later : std::runtime_error {
  /// `what`: the error; `wait`: before the next call.
  retry_later(const std::string& what, std::chrono::nanoseconds wait);

  std::chrono::nanoseconds pause; ///< before the next call
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE void retry::check() const {
  if (attempts < 1) throw std::invalid_argument("feedline::retry: attempts is 0, but must be at least 1");
  if (first_pause.count() < 0 || longest_pause.count() < 0)
    throw std::invalid_argument("feedline::retry: a pause is negative");
  if (for_at_most.count() < 0) throw std::invalid_argument("feedline::retry: for_at_most is negative");
  if (!(factor >= 1 && factor <= 1e6))
    throw std::invalid_argument("feedline::retry: factor must be from 1 to 1,000,000");
  if (!(jitter >= 0 && jitter <= 1))
    throw std::invalid_argument("feedline::retry: jitter must be from 0 to 1");
}

FEEDLINE_INLINE std::chrono::nanoseconds retry::pause_after(std::size_t attempts_made,
                                                            random_generator& random) const {
  constexpr double longest = 4e18; // ns, which jitter may double
  const auto first = static_cast<double>(first_pause.count());
  double pause = std::min(static_cast<double>(longest_pause.count()), longest);
  if (const double growth = std::pow(factor, static_cast<double>(attempts_made - 1)); growth < pause / first)
    pause = first * growth;
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>((first > 0 ? pause : 0) * random.uniform(1 - jitter, 1 + jitter)));
}

FEEDLINE_INLINE retry_error::retry_error(const std::string& last_error, std::size_t tried)
    : std::runtime_error(last_error + "; tried " + std::to_string(tried) + " times"), attempts(tried) {}

FEEDLINE_INLINE retry_later::retry_later(const std::string& what, std::chrono::nanoseconds wait)
    : std::runtime_error(what), pause(wait) {}

} // namespace feedline::inline FEEDLINE_ABI
#endif
