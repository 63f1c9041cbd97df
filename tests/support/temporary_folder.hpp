// SPDX-License-Identifier: MIT
#pragma once
// A folder that is removed when its object is destroyed.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

#include <stdlib.h>

namespace feedline::test {

/// The contents of a file; empty if it doesn't exist.
inline std::string contents_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class temporary_folder {
 public:
  temporary_folder() : path_((std::filesystem::temp_directory_path() / "feedline-XXXXXX").string()) {
    if (!::mkdtemp(path_.data())) throw std::runtime_error("can't create a folder like " + path_);
  }

  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;

  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

  /// Writes a file and returns its path.
  std::string write(std::string_view name, std::string_view contents) const {
    const std::string file = *this / name;
    std::ofstream(file, std::ios::binary) << contents;
    return file;
  }

 private:
  std::string path_;
};

} // namespace feedline::test
