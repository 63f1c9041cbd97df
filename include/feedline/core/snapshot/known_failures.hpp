// SPDX-License-Identifier: MIT
#pragma once
// The failures that the resumed run had among the samples that are recomputed.
#include <atomic>
#include <cstddef>
#include <vector>

#include <feedline/core/failure.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Calls that failed in the earlier run. They count as failed in this run too, even if they would succeed now,
/// so that the rest of the stream is the same. Any thread may use it.
class known_failures {
 public:
  explicit known_failures(std::vector<failed_call> calls);

  /// Whether some of these calls may be of the stage at that position.
  bool has_some_of(std::size_t place) const noexcept;

  bool is_empty() const noexcept { return left_.load(std::memory_order_relaxed) == 0; }

  /// Whether that call is one of them; removes it.
  bool take(const failed_call& call) noexcept { return !is_empty() && find(call); }

 private:
  bool find(const failed_call& call) noexcept;

  std::vector<failed_call> calls_;
  std::vector<std::atomic<bool>> taken_;
  std::atomic<std::size_t> left_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/core/snapshot/known_failures.ipp>
#endif
