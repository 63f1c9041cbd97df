// SPDX-License-Identifier: MIT
#pragma once
// What an asynchronous function learns of its item, and where it runs.
#include <cstdint>
#include <stop_token>
#include <string_view>

#include <asio/io_context.hpp>

#include <feedline/core/random.hpp>
#include <feedline/core/sample.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// The second argument of an asynchronous function `(item, async_context&)`; valid until its coroutine ends. Two
/// calls for the same sample, epoch, seed and stage see the same random numbers.
class async_context {
 public:
  using executor_type = asio::io_context::executor_type; ///< of an event loop

  /// For the library.
  async_context(const context& c, executor_type runs_on, const std::stop_token& stop_of_run)
      : index(c.index),
        sub_index(c.sub_index),
        epoch(c.epoch),
        repetition(c.repetition),
        random(c.random),
        executor(runs_on),
        stop(stop_of_run),
        counters_(c.counters) {}

  std::uint64_t index;      ///< as in sample_id; sample_id::no_index in async_source
  std::uint64_t sub_index;  ///< as in sample_id
  std::uint32_t epoch;      ///< as in sample_id
  std::uint32_t repetition; ///< as in sample_id
  random_generator random;  ///< for this call, keyed by (seed, stage, sample_id)
  executor_type executor; ///< of the event loop on which the coroutine runs: make sockets and timers with it
  /// The run's. When it is requested, what the coroutine waits for is cancelled; only a long computation needs
  /// to look at it. Valid as long as the context.
  const std::stop_token& stop;

  /// As context::count(); nothing is counted in async_source.
  void count(std::string_view name, std::uint64_t times = 1) const {
    if (counters_) counters_->numbers.count(name, times);
  }

  /// As context::gauge(); nothing is noted in async_source.
  void gauge(std::string_view name, double value) const {
    if (counters_) counters_->numbers.set(name, value);
  }

 private:
  detail::stage_counters* counters_;
};

} // namespace feedline::inline FEEDLINE_ABI
