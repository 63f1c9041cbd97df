// SPDX-License-Identifier: MIT
#include <feedline/core/epoch.hpp>

#include "support/catch.hpp"

// That sources are told the right ones is tested with them: source.test.cpp.
TEST_CASE("An epoch is the first one in the listed order unless told otherwise") {
  const feedline::epoch e;
  CHECK(e.seed == 0);
  CHECK(e.number == 0);
  CHECK_FALSE(e.shuffled);
}
