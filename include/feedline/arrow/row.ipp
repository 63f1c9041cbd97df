// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/arrow/row.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::string row_text(const arrow_file& file, std::uint64_t row) {
  return readable(file.origin.path) + ": row " + std::to_string(row);
}

FEEDLINE_INLINE std::string column_name(const arrow_file& file, std::size_t column) {
  const arrow_path& path = file.paths[column];
  std::string name;
  for (std::size_t i = 1; i <= path.size(); ++i) {
    if (i > 1) name += '.';
    name += field_at(file.layout->schema, {path.begin(), path.begin() + static_cast<std::ptrdiff_t>(i)}).name;
  }
  return name;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
