// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <vector>

#include "support/numbers.hpp"

namespace feedline::test {

/// A function that returns its argument and throws for the unlucky ones.
struct refusing {
  std::vector<int> bad;

  int operator()(int number) const {
    if (std::find(bad.begin(), bad.end(), number) != bad.end()) throw unlucky(number);
    return number;
  }
};

} // namespace feedline::test
