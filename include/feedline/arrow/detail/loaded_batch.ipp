// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/arrow/detail/loaded_batch.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE loaded_column load_column(array_reader& reader, const arrow_field& field, std::uint64_t rows,
                                          const arrow_path& path) {
  loaded_column column;
  column.path = std::span(path).subspan(1);
  column.array = reader.read(field, rows, column.path);
  while (!column.path.empty() && column.array.valid.empty() && !column.array.dictionary) {
    column.array = arrow_array(std::move(column.array.children.front()));
    column.path = column.path.subspan(1);
  }
  if (!column.path.empty()) return column;
  const auto has_values = [](const arrow_array& array) {
    return array.field->type != arrow_type::null && array.field->type != arrow_type::dictionary;
  };
  column.is_direct = has_values(column.array);
  if (column.array.dictionary) {
    const arrow_array& first = *column.array.dictionary->parts.front();
    if (has_values(first) && first.valid.empty()) column.first = &first;
  }
  return column;
}

FEEDLINE_INLINE std::shared_ptr<const loaded_batch> load_batch(const std::shared_ptr<const arrow_file>& file,
                                                               const message_bytes& bytes,
                                                               std::uint64_t first_row, std::uint64_t rows,
                                                               dictionary_finder& dictionaries) {
  auto loaded = std::make_shared<loaded_batch>();
  loaded->file = file;
  loaded->first_row = first_row;
  loaded->rows = rows;
  loaded->memory = bytes.memory;
  try {
    const message m(bytes.metadata);
    if (m.rows() != rows || m.body_size() != bytes.body.size())
      throw arrow_error("the file has changed since it was opened");
    loaded->is_compressed = m.batch().compression() != nullptr;
    array_reader reader(m.batch(), bytes.body, dictionaries, loaded->own);
    for (const arrow_path& path : file->paths) {
      loaded->columns.push_back(load_column(reader, file->layout->schema.columns[path.front()], rows, path));
    }
  } catch (const arrow_error& error) {
    loaded->problem = error.what();
  }
  return loaded;
}

FEEDLINE_INLINE arrow_place find_inner_value(const loaded_column& column, std::uint64_t row) {
  arrow_place place = value_at({&column.array, row});
  for (const std::size_t part : column.path) {
    if (!place.array) break;
    const auto& parts = place.array->children;
    // A struct that is read as a part of a dictionary has all of its parts.
    const bool has_all = parts.size() == place.array->field->children.size();
    place = value_at({&parts[has_all ? part : 0], place.at});
  }
  return place;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
