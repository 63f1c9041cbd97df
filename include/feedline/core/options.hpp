// SPDX-License-Identifier: MIT
#pragma once
// The options of a run.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <feedline/core/callback.hpp>
#include <feedline/core/checkpoint.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/plan/run_options.hpp>
#include <feedline/core/rank.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of `pipeline.infinite(…)`. Three are rarely set, and only programs that set them compile what they need: they convert
/// from and to the value named, which `value()` returns, too.
struct infinite_options {
  /// Keys every random decision: equal seeds yield equal runs. By default 0, or the seed of the resumed run.
  std::optional<std::uint64_t> seed{};
  std::stop_token stop{};                                 ///< stops the run from outside
  feedline::on_error on_error = feedline::on_error::fail; ///< what happens to a sample that fails
  /// With on_error::skip: one more failed sample ends the run. A sample that fails in every epoch counts once, unless its
  /// source fails before it has an index.
  std::size_t failure_limit = default_failure_limit;
  std::vector<stage_failure_limit> stage_failure_limits{}; ///< the same for single stages
  /// Receives each failure that is skipped, but not the one that ends the run, in the order of the stream, when next() has
  /// reached it; called by the thread that calls next(), which throws what this function throws.
  callback<failure> on_failure{};
  /// The most samples (or batches) that each queue holds; 0: a number that suits the workers.
  std::size_t queue_capacity = 0;
  /// The most bytes that the run may hold (see memory_plan). Queues are shortened to fit, except those of
  /// prefetch(n). 0: no limit.
  detail::rare_option<std::size_t, &detail::capacity_within> memory_budget{};
  feedline::rank rank{};              ///< this process's share of the data set
  std::optional<checkpoint> resume{}; ///< where to continue; a checkpoint of another run is refused
  /// Accepts files or elements that were appended after the checkpoint was taken: they take part from the
  /// next epoch on.
  bool allow_grown_data = false;
  /// Receives a sentence about something unusual; by default it goes to stderr.
  callback<std::string> on_notice{};
  /// If the consumer waits for more than half of the time up to `starved_after`: receives once a sentence that says what
  /// limits the run.
  /// Called by the thread that calls next(); next() then throws what this function throws.
  detail::rare_option<callback<std::string>, &detail::why_starved> on_starved{};
  std::chrono::nanoseconds starved_after = std::chrono::seconds(30); ///< since the start
  /// If next() has waited for that long: on_notice receives a sentence that says for what (see run_handle::waiting_for()), in
  /// another thread; what it throws is ignored there. 0: never.
  detail::rare_option<std::chrono::nanoseconds, &detail::watch_waits> watchdog{};
  /// The part of the processors (see processors()) that the threads of the run may use, from 0 to 1: a thread waits
  /// between two packets while the run is ahead of that, so packets that take long make it uneven. 0: no limit.
  double cpu_share = 0;
  int nice = 0; ///< is added to the nice value of the threads of the run, up to 19, as nice(1) does
};

/// Options of `pipeline.finite(…)`.
struct finite_options {
  std::optional<std::uint64_t> seed{}; ///< keys every random decision, as in infinite_options
  /// Passes over the data, at least 1; with more than one, each has its own order.
  std::uint32_t epochs = 1;
  /// The number of the first epoch, which keys its order and random numbers. For a loop that starts a run for each
  /// epoch: `for (e = 0; e < 10; ++e) for (auto& batch : train.finite({.first_epoch = e}))` yields what one run over
  /// 10 epochs yields. Without it each run has the same order. By default 0, or that of the resumed run.
  std::optional<std::uint32_t> first_epoch{};
  std::stop_token stop{};                                 ///< stops the run from outside
  feedline::on_error on_error = feedline::on_error::fail; ///< what happens to a sample that fails
  std::size_t failure_limit =
      default_failure_limit; ///< with on_error::skip: one more failed sample ends the run
  std::vector<stage_failure_limit> stage_failure_limits{}; ///< the same for single stages
  callback<failure> on_failure{}; ///< receives each failure that is skipped, as in infinite_options
  std::size_t queue_capacity = 0; ///< the most samples (or batches) that each queue holds; 0: automatic
  /// The most bytes that the run may hold, as in infinite_options.
  detail::rare_option<std::size_t, &detail::capacity_within> memory_budget{};
  feedline::rank rank{};              ///< this process's share of the data set
  std::optional<checkpoint> resume{}; ///< where to continue; a checkpoint of another run is refused
  bool allow_grown_data = false;      ///< accepts data that was appended, as in infinite_options
  callback<std::string> on_notice{};  ///< receives a sentence about something unusual, as in infinite_options
  /// Receives what limits a slow run, as in infinite_options.
  detail::rare_option<callback<std::string>, &detail::why_starved> on_starved{};
  std::chrono::nanoseconds starved_after = std::chrono::seconds(30); ///< as in infinite_options
  /// Reports that next() waits for so long, as in infinite_options.
  detail::rare_option<std::chrono::nanoseconds, &detail::watch_waits> watchdog{};
  double cpu_share = 0; ///< the part of the processors that the run may use, as in infinite_options
  int nice = 0;         ///< lowers the priority of its threads, as in infinite_options
};

namespace detail {

///@{
/// Throws std::invalid_argument for values that make no sense.
run_options as_run_options(const finite_options& o);

run_options as_run_options(const infinite_options& o);

///@}

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <stdexcept>

#include <feedline/core/plan/run_plan.hpp>
#include <feedline/core/run/delivery.hpp>
#include <feedline/core/run/waiting_for.hpp>
#include <feedline/detail/given_size.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

template <class Options>
run_options as_run_options(const Options& o, std::uint32_t epochs,
                           const std::optional<std::uint32_t>& first_epoch = {}) {
  refuse_negative(o.queue_capacity, "feedline: the queue_capacity");
  refuse_negative(o.memory_budget.value(), "feedline: the memory_budget");
  if (o.watchdog.value() < std::chrono::nanoseconds(0) || o.starved_after < std::chrono::nanoseconds(0))
    throw std::invalid_argument("feedline: the time of the watchdog or of starved_after is negative");
  if (!(o.cpu_share >= 0 && o.cpu_share <= 1))
    throw std::invalid_argument("feedline: cpu_share is " + std::to_string(o.cpu_share) +
                                ", but it must be from 0 (no limit) to 1 (all processors)");
  if (o.nice < 0 || o.nice > 19)
    throw std::invalid_argument("feedline: nice is " + std::to_string(o.nice) +
                                ", but it must be from 0 to 19");
  return {o.seed     ? *o.seed
          : o.resume ? o.resume->seed()
                     : 0,
          epochs,
          first_epoch,
          o.stop,
          o.on_error,
          o.failure_limit,
          o.stage_failure_limits,
          o.on_failure,
          o.on_notice,
          o.on_starved,
          o.starved_after,
          o.watchdog,
          o.cpu_share,
          o.nice,
          o.queue_capacity,
          o.memory_budget,
          o.rank,
          o.resume,
          o.allow_grown_data,
          epochs == run_options::for_ever};
}

FEEDLINE_INLINE run_options as_run_options(const finite_options& o) {
  refuse_negative(o.epochs, "feedline: the number of epochs");
  if (o.epochs == 0)
    throw std::invalid_argument(
        "feedline: a finite run over 0 epochs would yield nothing: set epochs to 1 or more, or "
        "use infinite() for a run without an end");
  std::optional<std::uint32_t> first = o.first_epoch;
  if (!first && o.resume) first = o.resume->state().run.first_epoch;
  if (first == 0u && o.epochs != 1) first.reset(); // the same run
  if (first.value_or(0) > run_options::for_ever - o.epochs)
    throw std::invalid_argument("feedline: the first_epoch is negative or too large");
  return as_run_options(o, o.epochs, first);
}

FEEDLINE_INLINE run_options as_run_options(const infinite_options& o) {
  return as_run_options(o, run_options::for_ever);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
