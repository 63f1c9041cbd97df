// SPDX-License-Identifier: MIT
#pragma once
// What a check of feedline/testing.hpp complains of.
#include <latch>
#include <memory>
#include <string>

#include <feedline/testing/check_options.hpp>

namespace feedline::test {

/// The sentences of a check that must fail, or of one that must not: empty.
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

/// Holds up those who pass until it is opened. A check that was given up ends behind it.
class gate {
 public:
  void pass() { opened_.wait(); }

  /// Who takes part keeps a copy of it.
  std::shared_ptr<void> membership() {
    return {nullptr, [this](void*) { all_left_.count_down(); }};
  }

  /// Returns when nobody has a membership any more.
  void open() {
    opened_.count_down();
    all_left_.wait();
  }

 private:
  std::latch opened_{1};
  std::latch all_left_{1};
};

} // namespace feedline::test
