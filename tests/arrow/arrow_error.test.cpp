// SPDX-License-Identifier: MIT
#include <feedline/arrow/arrow_error.hpp>

#include <stdexcept>
#include <type_traits>

#include "support/catch.hpp"

namespace fl = feedline;

static_assert(std::is_base_of_v<std::runtime_error, fl::arrow_error>);

TEST_CASE("an arrow_error has the message that it was constructed with") {
  CHECK(fl::arrow_error("a.arrow: row 1").what() == std::string("a.arrow: row 1"));
}
