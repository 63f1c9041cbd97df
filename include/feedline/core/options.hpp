// SPDX-License-Identifier: MIT
#pragma once
// What a run can be told.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <utility>
#include <vector>

#include <feedline/core/checkpoint.hpp>
#include <feedline/core/epoch.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/detail/given_size.hpp>

namespace feedline::inline v0 {

/// How many failed samples `on_error::skip` puts up with, unless told otherwise.
inline constexpr std::size_t default_failure_limit = 1000;

/// Options of `pipeline.infinite(…)`.
struct infinite_options {
  /// Of every random decision: equal seeds give equal runs. By default 0, or that of the run that is resumed.
  std::optional<std::uint64_t> seed{};
  std::stop_token stop{}; ///< stops the run from elsewhere
  feedline::on_error on_error = feedline::on_error::fail;
  std::size_t failure_limit = default_failure_limit; ///< with on_error::skip: one failure more ends the run
  std::vector<stage_failure_limit> stage_limits{};   ///< the same, of single stages
  std::size_t queue_capacity =
      0; ///< samples (or batches) that each queue holds at most; 0: what suits the workers
  /// The most bytes that the run may hold (see memory_plan); queues are shortened to fit, but for
  /// those of prefetch(n). 0: no limit.
  std::size_t memory_budget = 0;
  feedline::rank rank{};              ///< which part of the data set is this process's
  std::optional<checkpoint> resume{}; ///< where to go on. Whatever doesn't fit is refused
  /// Goes on although files or elements were added behind those that the checkpoint knows: from the next
  /// epoch on they take part.
  bool data_may_have_grown = false;
};

/// Options of `pipeline.finite(…)`.
struct finite_options {
  std::optional<std::uint64_t> seed{};
  std::uint32_t epochs =
      1; ///< passes over the data, at least 1; with more than one, each has an order of its own
  std::stop_token stop{};
  feedline::on_error on_error = feedline::on_error::fail;
  std::size_t failure_limit = default_failure_limit;
  std::vector<stage_failure_limit> stage_limits{};
  std::size_t queue_capacity = 0;
  std::size_t memory_budget = 0;
  feedline::rank rank{};
  std::optional<checkpoint> resume{};
  bool data_may_have_grown = false;
};

namespace detail {

struct run_options {
  static constexpr std::uint32_t for_ever = std::numeric_limits<std::uint32_t>::max();

  std::uint64_t seed;
  std::uint32_t epochs;
  std::stop_token stop;
  feedline::on_error on_error;
  std::size_t failure_limit;
  std::vector<stage_failure_limit> stage_limits;
  std::size_t queue_capacity;
  std::size_t memory_budget;
  feedline::rank rank;
  std::optional<checkpoint> resume;
  bool data_may_have_grown;
  bool endless = false;               // an infinite run, also of a live source, which has one epoch
  std::uint64_t old_extent = 0;       // of a data set that has grown,
  std::uint64_t old_extent_until = 0; // in the epochs before this one
};

/// What the source of a run is told of an epoch.
inline epoch make_epoch(const run_options& o, std::uint32_t number, std::stop_token stop,
                        std::uint64_t first) {
  epoch e{o.seed, number, std::move(stop), o.epochs != 1};
  e.rank = o.rank;
  if (o.epochs == run_options::for_ever) e.rank.rest = uneven::keep; // they go on in the next epoch
  e.endless = o.endless;
  e.first = first;
  if (number < o.old_extent_until) e.extent = o.old_extent;
  return e;
}

template <class Options>
run_options as_run_options(const Options& o, std::uint32_t epochs) {
  refuse_negative(o.queue_capacity, "feedline: the queue_capacity");
  refuse_negative(o.memory_budget, "feedline: the memory_budget");
  return {o.seed     ? *o.seed
          : o.resume ? o.resume->seed()
                     : 0,
          epochs,
          o.stop,
          o.on_error,
          o.failure_limit,
          o.stage_limits,
          o.queue_capacity,
          o.memory_budget,
          o.rank,
          o.resume,
          o.data_may_have_grown,
          epochs == run_options::for_ever};
}

inline run_options as_run_options(const finite_options& o) {
  refuse_negative(o.epochs, "feedline: the number of epochs");
  if (o.epochs == 0)
    throw std::invalid_argument(
        "feedline: a finite run over 0 epochs would give nothing: set epochs to 1 or more, or "
        "use infinite() for a run without an end");
  return as_run_options(o, o.epochs);
}

inline run_options as_run_options(const infinite_options& o) {
  return as_run_options(o, run_options::for_ever);
}

} // namespace detail

} // namespace feedline::inline v0
