// SPDX-License-Identifier: MIT
// main() for every test executable, with Catch2 2 or 3, and the place of the test data.
#include <cstdlib>

#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include "support/test_data.hpp"

// CTest counts a test with this exit status as skipped.
constexpr int skipped = 77;

std::string feedline::test::test_data_folder() {
  const char* const folder = std::getenv("FEEDLINE_TEST_DATA");
  return folder ? folder : FEEDLINE_TEST_DATA_DEFAULT;
}

int main(int argc, char* argv[]) {
  if (Catch::Session().run(argc, argv) != 0)
    return 1; // not Catch2's status, which counts failures and might be 77
  return feedline::test::test_data_is_missing ? skipped : 0;
}
