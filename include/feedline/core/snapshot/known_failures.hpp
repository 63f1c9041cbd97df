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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <algorithm>
#include <utility>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE known_failures::known_failures(std::vector<failed_call> calls)
    : calls_(std::move(calls)), taken_(calls_.size()), left_(calls_.size()) {
  std::sort(calls_.begin(), calls_.end());
}

FEEDLINE_INLINE bool known_failures::has_some_of(std::size_t place) const noexcept {
  return left_.load(std::memory_order_relaxed) > 0 &&
         std::any_of(calls_.begin(), calls_.end(), [&](const failed_call& c) { return c.place == place; });
}

FEEDLINE_INLINE bool known_failures::find(const failed_call& call) noexcept {
  const auto first = std::lower_bound(calls_.begin(), calls_.end(), call);
  for (auto i = static_cast<std::size_t>(first - calls_.begin()); i < calls_.size() && calls_[i] == call;
       ++i) {
    if (taken_[i].exchange(true, std::memory_order_relaxed)) continue;
    left_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }
  return false;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
