// SPDX-License-Identifier: MIT
#pragma once
// A folder that is removed when its object is destroyed.
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include <stdlib.h>

class temporary_folder {
 public:
  temporary_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "shapes-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw std::system_error(errno, std::generic_category(), "can't create " + name);
    path_ = name;
  }

  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;

  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};
