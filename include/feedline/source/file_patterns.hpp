// SPDX-License-Identifier: MIT
#pragma once
// file_patterns: how sources are given the names of their files.
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// One or several names of files, each of which may be a pattern, such as `data/*.csv`, `part-{00..15}.txt` or, in
/// steps, `part-{000..100..50}.txt`.
/// A text, a list in braces and a vector convert to it.
class file_patterns {
 public:
  ///@{
  /// Implicit, so that each source needs one constructor for all of them.
  file_patterns(const char* name) : names_{name} {}

  file_patterns(std::string name) : names_{std::move(name)} {}

  file_patterns(std::initializer_list<std::string> names) : names_(names) {}

  file_patterns(std::vector<std::string> names) : names_(std::move(names)) {}

  ///@}

  /// As they were given.
  const std::vector<std::string>& names() const noexcept { return names_; }

 private:
  std::vector<std::string> names_;
};

} // namespace feedline::inline FEEDLINE_ABI
