// SPDX-License-Identifier: MIT
#pragma once
// The number of rounds of randomized tests.
#include "sanitizers.hpp"

namespace feedline::test {

/// Returns `number`, or a quarter of it under a sanitizer, which makes each round many times slower.
constexpr int rounds(int number) noexcept {
  if (!is_sanitized) return number;
  return number < 4 ? 1 : number / 4;
}

} // namespace feedline::test
