// SPDX-License-Identifier: MIT
#pragma once
// Runs a check in a separate thread, to notice if it hangs.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::testing::detail {

/// The progress and the findings of a check.
class observed {
 public:
  /// Sets what the check is doing, for each of its steps. Throws if nothing waits for the check any more.
  void doing(std::string what);

  void broken(std::string sentence);

  bool is_whole() const;

  void end(std::exception_ptr error);

  /// Waits for the end. Returns false if nothing happened for `patience`.
  bool wait(std::chrono::seconds patience);

  /// Throws what was found, or else the error that ended the check.
  void conclude() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::string doing_;
  std::uint64_t steps_ = 0;
  std::vector<std::string> sentences_;
  bool has_ended_ = false;
  bool is_given_up_ = false;
  std::exception_ptr error_;
};

/// Calls body(observed&), which must own everything that it uses: if it hangs, its thread is detached.
template <class Body>
void run_observed(std::chrono::seconds patience, Body body) {
  const auto shared = std::make_shared<observed>();
  std::thread thread([shared, body = std::move(body)]() mutable {
    std::exception_ptr error;
    try {
      body(*shared);
    } catch (...) {
      error = std::current_exception();
    }
    shared->end(std::move(error));
  });
  if (shared->wait(patience)) thread.join();
  else thread.detach();
  shared->conclude();
}

} // namespace feedline::inline FEEDLINE_ABI::testing::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_TESTING)
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
#endif
