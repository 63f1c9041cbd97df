// SPDX-License-Identifier: MIT
#pragma once
// How often tests of chance try their luck.

#include "support/sanitized.hpp"

namespace feedline::test {

/// So many; a quarter of them under a sanitizer, which takes many times as long for each.
constexpr int rounds(int number) noexcept {
#if FEEDLINE_TEST_SANITIZED
  return number < 4 ? 1 : number / 4;
#else
  return number;
#endif
}

} // namespace feedline::test
