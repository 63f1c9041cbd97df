// SPDX-License-Identifier: MIT
#pragma once
// Lists files.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace feedline::test {

/// The files of a folder with this extension, such as ".jpg", or all, in order of their names.
inline std::vector<std::filesystem::path> files_in(const std::string& folder,
                                                   const std::string& extension = {}) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (extension.empty() || entry.path().extension() == extension) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

} // namespace feedline::test
