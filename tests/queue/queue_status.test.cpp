// SPDX-License-Identifier: MIT
#include <feedline/queue/queue_status.hpp>

#include "support/catch.hpp"

TEST_CASE("each outcome has its own status, and success is the default value") {
  using feedline::queue_status;
  constexpr queue_status all[] = {queue_status::success, queue_status::empty, queue_status::full,
                                  queue_status::closed};
  for (const queue_status a : all)
    for (const queue_status b : all)
      CHECK((a == b) == (&a == &b || static_cast<int>(a) == static_cast<int>(b)));
  STATIC_REQUIRE(queue_status() == queue_status::success);
}
