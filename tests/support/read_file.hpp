// SPDX-License-Identifier: MIT
#pragma once
// Reads files, and lists them.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

namespace feedline::test {

inline std::vector<std::byte> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

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
