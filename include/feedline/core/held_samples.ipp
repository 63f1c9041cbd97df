// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/held_samples.hpp>

#include <array>
#include <mutex>

namespace feedline::inline FEEDLINE_ABI::detail {

class held_logs : public std::enable_shared_from_this<held_logs> {
 public:
  std::shared_ptr<held_log> take(std::size_t max_notes) {
    std::unique_ptr<held_log> log;
    {
      const std::lock_guard lock(mutex_);
      for (std::unique_ptr<held_log>& spare : spares_)
        if (!log) log = std::move(spare);
    }
    if (!log) log = std::make_unique<held_log>(max_notes);
    return {log.release(), [all = shared_from_this()](held_log* used) { all->give_back(used); }};
  }

 private:
  void give_back(held_log* used) noexcept {
    std::unique_ptr<held_log> log(used);
    const std::lock_guard lock(mutex_);
    for (std::unique_ptr<held_log>& spare : spares_)
      if (!spare) {
        spare = std::move(log);
        return;
      }
  }

  std::mutex mutex_;
  std::array<std::unique_ptr<held_log>, 2> spares_; // not a vector: returning a log must not allocate
};

FEEDLINE_INLINE std::shared_ptr<held_log> take_log(std::shared_ptr<held_logs>& used, std::size_t max_notes) {
  if (!used) used = std::make_shared<held_logs>();
  return used->take(max_notes);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
