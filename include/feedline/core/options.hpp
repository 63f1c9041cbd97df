// SPDX-License-Identifier: MIT
#pragma once
// What a run can be told.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stop_token>

#include <feedline/core/failure.hpp>

namespace feedline {

/// How many failed samples `on_error::skip` puts up with, unless told otherwise.
inline constexpr std::size_t default_failure_limit = 1000;

/// Options of `pipeline.infinite(…)`.
struct infinite_options {
  std::uint64_t seed = 0; ///< of every random decision: equal seeds give equal runs
  std::stop_token stop{}; ///< stops the run from elsewhere
  feedline::on_error on_error = feedline::on_error::fail;
  std::size_t failure_limit = default_failure_limit; ///< with on_error::skip: one failure more ends the run
  std::size_t queue_capacity =
      0; ///< samples (or batches) that each queue holds at most; 0: what suits the workers
};

/// Options of `pipeline.finite(…)`.
struct finite_options {
  std::uint64_t seed = 0;
  std::uint32_t epochs = 1; ///< passes over the data; with more than one, each has an order of its own
  std::stop_token stop{};
  feedline::on_error on_error = feedline::on_error::fail;
  std::size_t failure_limit = default_failure_limit;
  std::size_t queue_capacity = 0;
};

namespace detail {

struct run_options {
  static constexpr std::uint32_t for_ever = std::numeric_limits<std::uint32_t>::max();

  std::uint64_t seed;
  std::uint32_t epochs;
  std::stop_token stop;
  feedline::on_error on_error;
  std::size_t failure_limit;
  std::size_t queue_capacity;
};

inline run_options as_run_options(const finite_options& o) {
  return {o.seed,          std::min(o.epochs, run_options::for_ever - 1), o.stop, o.on_error, o.failure_limit,
          o.queue_capacity};
}

inline run_options as_run_options(const infinite_options& o) {
  return {o.seed, run_options::for_ever, o.stop, o.on_error, o.failure_limit, o.queue_capacity};
}

} // namespace detail

} // namespace feedline
