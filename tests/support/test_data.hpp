// SPDX-License-Identifier: MIT
#pragma once
// The test data that isn't in the repository: in $FEEDLINE_TEST_DATA, or where the build says.
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "support/catch.hpp"

namespace feedline::test {

/// Whether a test was skipped: main() says so to CTest.
inline bool test_data_is_missing = false;

/// The whole name of a file or folder of the test data; nothing, with a warning that the test is skipped,
/// where it isn't there. A test that needs it has the tag [shared], and with it an entry of its own in CTest.
inline std::optional<std::string> test_data(const std::string& name) {
  const char* folder = std::getenv("FEEDLINE_TEST_DATA");
#ifdef FEEDLINE_TEST_DATA_DEFAULT
  if (!folder) folder = FEEDLINE_TEST_DATA_DEFAULT;
#endif
  const std::string path = std::string(folder ? folder : "../shared/data") + "/" + name;
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return path;
  test_data_is_missing = true;
  WARN("skipped: no test data at " << path << " (set FEEDLINE_TEST_DATA)");
  return {};
}

} // namespace feedline::test
