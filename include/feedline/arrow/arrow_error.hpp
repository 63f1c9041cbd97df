// SPDX-License-Identifier: MIT
#pragma once
// What is thrown for Arrow data that can't be read.
#include <stdexcept>

namespace feedline::inline v0 {

/// A file, a record batch, a row or a column that can't be read. what() names the file and, where there is one, the row
/// and the column: "digits-000.arrow: row 17, column `label`: it is null, and the field isn't a std::optional".
class arrow_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

} // namespace feedline::inline v0
