// SPDX-License-Identifier: MIT
#pragma once
// Notices a second finite run that repeats the order of the first.
#include <atomic>
#include <cstdint>
#include <memory>

#include <feedline/core/options.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The finite runs of a pipeline that has a random order. A loop over `finite()` with the same options trains on the same
/// order in every pass, which is rarely intended: one notice for each pipeline, on stderr one in all, says so. Copies
/// share what they know.
class repeated_order {
 public:
  /// A run has begun.
  void note(const run_options& options) const;

 private:
  struct state {
    std::atomic<bool> has_run{false};
    std::atomic<std::uint64_t> order{0}; // hash of what determines it
    std::atomic<bool> was_noticed{false};
  };

  std::shared_ptr<state> state_ = std::make_shared<state>();
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/repeated_order.ipp>
#endif
