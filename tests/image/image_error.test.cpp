// SPDX-License-Identifier: MIT
#include <feedline/image/image_error.hpp>

#include "support/catch.hpp"

#include <type_traits>

namespace fl = feedline;

static_assert(std::is_base_of_v<std::runtime_error, fl::image_error>);

TEST_CASE(
    "a step that fails throws its message, however often, and a step that doesn't fail runs to its end") {
  fl::detail::jumping_errors<fl::image_error> errors;
  for (int round = 0; round < 3; ++round) {
    bool goes_on = false;
    const auto failing = [&] {
      errors.fail("reason %d", round);
      goes_on = true;
    };
    CHECK_THROWS_WITH(errors.run("who", failing), "who: reason " + std::to_string(round));
    CHECK_FALSE(errors.attempt(failing));
    CHECK_FALSE(goes_on);
    bool done = false;
    errors.run("who", [&] { done = true; });
    CHECK(done);
  }
}
