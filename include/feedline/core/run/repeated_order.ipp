// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/run/repeated_order.hpp>

#include <feedline/core/callback.hpp>
#include <feedline/core/random.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void repeated_order::note(const run_options& options) const {
  if (options.endless || options.first_epoch || options.resume) return;
  static std::atomic<bool> was_printed{false};
  const std::uint64_t order = key(options.seed, options.rank.number);
  const std::uint64_t before = state_->order.exchange(order);
  if (!state_->has_run.exchange(true) || before != order || state_->was_noticed.exchange(true)) return;
  if (!options.on_notice && was_printed.exchange(true)) return;
  notify(
      options.on_notice,
      "feedline: a pipeline with a random order runs once more with finite() and the same seed: it repeats "
      "the order and the random numbers of the run before; in a loop over epochs pass .first_epoch = epoch");
}

} // namespace feedline::inline FEEDLINE_ABI::detail
