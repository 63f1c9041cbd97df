// SPDX-License-Identifier: MIT
#pragma once
// Finds the test data that isn't in the repository: in $FEEDLINE_TEST_DATA, or in the folder that the build
// sets.
#include <filesystem>
#include <optional>
#include <string>

#include "support/catch.hpp"

namespace feedline::test {

/// Whether a test was skipped; main() reports that to CTest.
inline bool test_data_is_missing = false;

/// Where the test data should be.
std::string test_data_folder();

/// Returns the path of a file or folder of the test data. If it is missing, warns that the test is skipped
/// and returns nullopt. A test that needs test data has the tag [shared], and so a separate entry in CTest.
inline std::optional<std::string> test_data(const std::string& name) {
  const std::string path = test_data_folder() + "/" + name;
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return path;
  test_data_is_missing = true;
  WARN("skipped: no test data at " << path << " (set FEEDLINE_TEST_DATA)");
  return {};
}

} // namespace feedline::test
