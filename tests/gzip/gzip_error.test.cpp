// SPDX-License-Identifier: MIT
#include <feedline/gzip/gzip_error.hpp>

#include <stdexcept>
#include <string>
#include <type_traits>

#include "support/catch.hpp"

using feedline::gzip_error;

static_assert(std::is_base_of_v<std::runtime_error, gzip_error>);
static_assert(std::is_nothrow_copy_constructible_v<gzip_error>);

TEST_CASE("what() of a gzip error is the text that it was made with") {
  try {
    throw gzip_error("feedline::gunzip: the file is empty");
  } catch (const std::runtime_error& error) {
    CHECK(std::string(error.what()) == "feedline::gunzip: the file is empty");
  }
}
