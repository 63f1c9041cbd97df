// SPDX-License-Identifier: MIT
#pragma once
// A folder that goes away with its object.
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include <stdlib.h>

namespace feedline::test {

class temporary_folder {
 public:
  temporary_folder() : path_((std::filesystem::temp_directory_path() / "feedline-XXXXXX").string()) {
    if (!::mkdtemp(path_.data())) throw std::runtime_error("can't make a folder like " + path_);
  }

  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;

  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

  /// Writes a file and gives its whole name.
  std::string write(std::string_view name, std::string_view contents) const {
    const std::string file = *this / name;
    std::ofstream(file, std::ios::binary) << contents;
    return file;
  }

 private:
  std::string path_;
};

} // namespace feedline::test
