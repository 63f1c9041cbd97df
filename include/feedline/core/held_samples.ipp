// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/held_samples.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::shared_ptr<held_log> held_logs::take(std::size_t max_notes) {
  std::unique_ptr<held_log> log;
  {
    const std::lock_guard lock(mutex_);
    for (std::unique_ptr<held_log>& spare : spares_)
      if (!log) log = std::move(spare);
  }
  if (!log) log = std::make_unique<held_log>(max_notes);
  return {log.release(), [all = shared_from_this()](held_log* used) { all->give_back(used); }};
}

FEEDLINE_INLINE void held_logs::give_back(held_log* used) noexcept {
  std::unique_ptr<held_log> log(used);
  const std::lock_guard lock(mutex_);
  for (std::unique_ptr<held_log>& spare : spares_)
    if (!spare) {
      spare = std::move(log);
      return;
    }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
