// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/options.hpp>

#include <stdexcept>

#include <feedline/detail/given_size.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE epoch make_epoch(const run_options& o, std::uint32_t number, std::stop_token stop,
                                 std::uint64_t first) {
  epoch e{o.seed, number, std::move(stop), o.shuffles_shards()};
  e.rank = o.rank;
  if (o.epochs == run_options::for_ever) e.rank.remainder = remainder::keep; // continued in the next epoch
  e.endless = o.endless;
  e.first = first;
  if (number < o.old_extent_until) e.extent = o.old_extent;
  return e;
}

template <class Options>
run_options as_run_options(const Options& o, std::uint32_t epochs,
                           const std::optional<std::uint32_t>& first_epoch = {}) {
  refuse_negative(o.queue_capacity, "feedline: the queue_capacity");
  refuse_negative(o.memory_budget, "feedline: the memory_budget");
  if (o.watchdog < std::chrono::nanoseconds(0) || o.starved_after < std::chrono::nanoseconds(0))
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
