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

#ifndef FEEDLINE_COMPILED
#include <feedline/testing/detail/observed.ipp>
#endif
