// SPDX-License-Identifier: MIT
#pragma once
// The test data that isn't in the repository: in $FEEDLINE_TEST_DATA, or where the build says.
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "support/catch.hpp"

namespace feedline::test {

/// The whole name of a file or folder of the test data; nothing, with a warning that the test is skipped,
/// where it isn't there.
inline std::optional<std::string> test_data(const std::string& name) {
  const char* folder = std::getenv("FEEDLINE_TEST_DATA");
#ifdef FEEDLINE_TEST_DATA_DEFAULT
  if (!folder) folder = FEEDLINE_TEST_DATA_DEFAULT;
#endif
  const std::string path = std::string(folder ? folder : "../shared/data") + "/" + name;
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return path;
  WARN("skipped: no test data at " << path << " (set FEEDLINE_TEST_DATA)");
  return {};
}

} // namespace feedline::test
