// SPDX-License-Identifier: MIT
#pragma once
// The failures that the resumed run had among the samples that are recomputed.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <feedline/core/failure.hpp>

namespace feedline::inline v0::detail {

/// Calls that failed in the earlier run. They count as failed in this run too, even if they would succeed now,
/// so that the rest of the stream is the same. Any thread may use it.
class known_failures {
 public:
  known_failures() = default;

  explicit known_failures(std::vector<failed_call> calls)
      : calls_(std::move(calls)),
        taken_(std::make_unique<std::atomic<bool>[]>(calls_.size())),
        left_(calls_.size()) {
    std::sort(calls_.begin(), calls_.end());
  }

  /// Whether some of these calls may be of the stage at that position.
  bool has_some_of(std::size_t place) const noexcept {
    return left_.load(std::memory_order_relaxed) > 0 &&
           std::any_of(calls_.begin(), calls_.end(), [&](const failed_call& c) { return c.place == place; });
  }

  bool is_empty() const noexcept { return left_.load(std::memory_order_relaxed) == 0; }

  /// Whether that call is one of them; removes it.
  bool take(const failed_call& call) noexcept {
    if (is_empty()) return false;
    const auto first = std::lower_bound(calls_.begin(), calls_.end(), call);
    for (auto i = static_cast<std::size_t>(first - calls_.begin()); i < calls_.size() && calls_[i] == call;
         ++i) {
      if (taken_[i].exchange(true, std::memory_order_relaxed)) continue;
      left_.fetch_sub(1, std::memory_order_relaxed);
      return true;
    }
    return false;
  }

 private:
  std::vector<failed_call> calls_;
  std::unique_ptr<std::atomic<bool>[]> taken_;
  std::atomic<std::size_t> left_{0};
};

} // namespace feedline::inline v0::detail
