// SPDX-License-Identifier: MIT
#pragma once
// The exception for unreadable Arrow data.
#include <stdexcept>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// A file, record batch, row or column that can't be read. what() names the file and, if known, the row and
/// the column: "digits-000.arrow: row 17, column `label`: the value is null, but the field isn't a
/// std::optional".
class arrow_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

} // namespace feedline::inline FEEDLINE_ABI
