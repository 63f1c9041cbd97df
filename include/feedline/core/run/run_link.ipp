// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/run/run_link.hpp>

#include <algorithm>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void run_link::add(const std::shared_ptr<watched_run>& watch) {
  const std::lock_guard lock(mutex_);
  std::erase_if(watches_, [](const std::weak_ptr<watched_run>& w) { return w.expired(); });
  watches_.push_back(watch);
}

FEEDLINE_INLINE void run_link::end() noexcept {
  const std::lock_guard lock(mutex_);
  for (const std::weak_ptr<watched_run>& weak : watches_) {
    const std::shared_ptr<watched_run> watch = weak.lock();
    if (!watch) continue;
    try {
      feedline::metrics last = watch->report(*of_);
      const std::lock_guard last_lock(watch->mutex);
      watch->last = std::move(last);
    } catch (...) { // there is no memory for them
    }
  }
  of_ = nullptr;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
