// SPDX-License-Identifier: MIT
#include <feedline/core/epoch.hpp>

#include "support/catch.hpp"

// source.test.cpp tests that sources receive the right ones.
TEST_CASE("By default an epoch is the first one, in the listed order") {
  const feedline::epoch e;
  CHECK(e.seed == 0);
  CHECK(e.number == 0);
  CHECK_FALSE(e.shuffled);
}
