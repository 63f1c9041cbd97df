// SPDX-License-Identifier: MIT
#pragma once
// Collects the messages of the checks in feedline/testing.hpp.
#include <latch>
#include <memory>
#include <string>

#include <feedline/testing/check_options.hpp>

namespace feedline::test {

/// The message of a check that fails; empty if it passes.
template <class Check>
std::string broken_promises(Check check) {
  try {
    check();
    return {};
  } catch (const testing::broken_promise& broken) {
    return broken.what();
  }
}

inline bool says(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

/// Blocks threads in pass() until it is opened. An abandoned check ends after it.
class gate {
 public:
  void pass() { opened_.wait(); }

  /// Each participant keeps a copy.
  std::shared_ptr<void> membership() {
    return {nullptr, [this](void*) { all_left_.count_down(); }};
  }

  /// Opens the gate and returns when all memberships are destroyed.
  void open() {
    opened_.count_down();
    all_left_.wait();
  }

 private:
  std::latch opened_{1};
  std::latch all_left_{1};
};

} // namespace feedline::test
