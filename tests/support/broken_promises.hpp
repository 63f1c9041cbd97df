// SPDX-License-Identifier: MIT
#pragma once
// What a check of feedline/testing.hpp complains of.
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

} // namespace feedline::test
