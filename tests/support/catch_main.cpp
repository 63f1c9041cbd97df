// SPDX-License-Identifier: MIT
// main() for every test executable, with either Catch2.
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include "support/test_data.hpp"

// CTest calls a test skipped that ends with this.
constexpr int skipped = 77;

int main(int argc, char* argv[]) {
  if (Catch::Session().run(argc, argv) != 0) return 1; // Catch2 counts failures, which might be 77
  return feedline::test::test_data_is_missing ? skipped : 0;
}
