// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/snapshot/known_failures.hpp>

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
