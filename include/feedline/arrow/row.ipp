// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/arrow/row.hpp>

#include <algorithm>

#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::string row_text(const arrow_file& file, std::uint64_t row) {
  return readable(file.origin.path) + ": row " + std::to_string(row);
}

FEEDLINE_INLINE void throw_unread_batch(const loaded_batch& batch, std::uint64_t row) {
  throw arrow_error(row_text(*batch.file, batch.first_row + row) +
                    ": can't read its record batch: " + batch.problem);
}

/// The path of a row whose column of bytes, as Hugging Face stores audio and images, has no bytes; empty if it has none.
FEEDLINE_INLINE std::string path_without_bytes(const loaded_batch& batch, std::uint64_t row,
                                               std::size_t column) {
  const arrow_schema& schema = batch.file->layout->schema;
  arrow_path path = batch.file->paths[column];
  if (path.size() < 2 || find_value(batch.columns[column], row).array) return {};
  const std::vector<arrow_field>* const parts = parts_of(field_at(schema, {path.begin(), path.end() - 1}));
  if ((*parts)[path.back()].name != "bytes") return {};
  const auto named = std::ranges::find_if(
      *parts, [](const arrow_field& part) { return part.name == "path" && is_text(part); });
  if (named == parts->end()) return {};
  path.back() = static_cast<std::size_t>(named - parts->begin());
  try {
    const message m(batch.metadata);
    owned_bytes own;
    byte_limit limit(batch.file->max_batch_bytes, "it takes", "max_batch_bytes");
    const auto none = [](const arrow_field&) { return std::shared_ptr<const arrow_dictionary>(); };
    array_reader reader(m.batch(), batch.body, none, own, limit);
    const loaded_column paths = load_column(reader, schema.columns[path.front()], batch.rows, path);
    const arrow_place place = find_value(paths, row);
    return place.array ? std::string(arrow_cell<std::string_view>::read(place)) : std::string();
  } catch (const arrow_error&) {
    return {};
  }
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
  const std::string there = path_without_bytes(batch, row, column);
  throw arrow_error(row_text(file, batch.first_row + row) + ", column " + in_backticks(name) + ": " +
                    (there.empty() ? error.what()
                                   : "the row has a path (" + in_backticks(there) +
                                         ") and no bytes: store the contents of the files in the column when "
                                         "you write the data set, or read the paths and open the files"));
}

} // namespace feedline::inline FEEDLINE_ABI::detail
