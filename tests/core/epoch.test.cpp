// SPDX-License-Identifier: MIT
#include <feedline/core/epoch.hpp>

#include <type_traits>

#include "support/catch.hpp"

// That sources are told the right ones is tested with them: source.test.cpp.
TEST_CASE("An epoch is the first one in the listed order unless told otherwise") {
  const feedline::epoch e;
  STATIC_REQUIRE(std::is_trivially_copyable_v<feedline::epoch>);
  CHECK(e.seed == 0);
  CHECK(e.number == 0);
  CHECK_FALSE(e.shuffled);
}
