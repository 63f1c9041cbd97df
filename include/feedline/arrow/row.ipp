// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/arrow/row.hpp>

#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::string row_text(const arrow_file& file, std::uint64_t row) {
  return readable(file.origin.path) + ": row " + std::to_string(row);
}

FEEDLINE_INLINE void throw_unread_batch(const loaded_batch& batch, std::uint64_t row) {
  throw arrow_error(row_text(*batch.file, batch.first_row + row) +
                    ": can't read its record batch: " + batch.problem);
}

FEEDLINE_INLINE void throw_unread_cell(const loaded_batch& batch, std::uint64_t row, std::size_t column,
                                       const arrow_error& error) {
  const arrow_file& file = *batch.file;
  const arrow_path& path = file.paths[column];
  std::string name;
  for (std::size_t i = 1; i <= path.size(); ++i) {
    if (i > 1) name += '.';
    name += field_at(file.layout->schema, {path.begin(), path.begin() + static_cast<std::ptrdiff_t>(i)}).name;
  }
  throw arrow_error(row_text(file, batch.first_row + row) + ", column " + in_backticks(name) + ": " +
                    error.what());
}

} // namespace feedline::inline FEEDLINE_ABI::detail
