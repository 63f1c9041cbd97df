// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/testing/detail/observed.hpp>

#include <stdexcept>

#include <feedline/testing/check_options.hpp>

namespace feedline::inline FEEDLINE_ABI::testing::detail {

FEEDLINE_INLINE void observed::doing(std::string what) {
  const std::lock_guard lock(mutex_);
  if (is_given_up_) throw std::runtime_error("the check was given up");
  doing_ = std::move(what);
  ++steps_;
}

FEEDLINE_INLINE void observed::broken(std::string sentence) {
  const std::lock_guard lock(mutex_);
  sentences_.push_back(std::move(sentence));
}

FEEDLINE_INLINE bool observed::is_whole() const {
  const std::lock_guard lock(mutex_);
  return sentences_.empty();
}

FEEDLINE_INLINE void observed::end(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    error_ = std::move(error);
  }
  ended_.notify_one();
}

FEEDLINE_INLINE bool observed::wait(std::chrono::seconds patience) {
  std::unique_lock lock(mutex_);
  for (std::uint64_t seen = steps_;; seen = steps_) {
    if (ended_.wait_for(lock, patience, [this] { return has_ended_; })) return true;
    if (seen != steps_) continue;
    sentences_.push_back(
        "A run never hangs: nothing happened for " + std::to_string(patience.count()) +
        " s while the check " + doing_ +
        ". Look for a loop that doesn't end or a wait that nobody wakes: emit() returns false when no "
        "more items are needed, and context.stop and epoch.stop announce a stop.");
    is_given_up_ = true;
    return false;
  }
}

FEEDLINE_INLINE void observed::conclude() const {
  const std::lock_guard lock(mutex_);
  if (!sentences_.empty()) throw broken_promise(sentences_);
  if (error_) std::rethrow_exception(error_);
}

} // namespace feedline::inline FEEDLINE_ABI::testing::detail
