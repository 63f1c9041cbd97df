// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/arrow/detail/loaded_batch.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

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
      const arrow_field& column = file->layout->schema.columns[path.front()];
      loaded->columns.push_back(reader.read(column, rows, std::span(path).subspan(1)));
    }
  } catch (const arrow_error& error) {
    loaded->problem = error.what();
  }
  return loaded;
}

FEEDLINE_INLINE arrow_place find_value(const loaded_batch& batch, std::size_t column, std::uint64_t row) {
  const arrow_path& path = batch.file->paths[column];
  arrow_place place = value_at({&batch.columns[column], row});
  for (std::size_t i = 1; i < path.size() && place.array; ++i) {
    const auto& parts = place.array->children;
    // A struct that is read as a part of a dictionary has all of its parts.
    const bool has_all = parts.size() == place.array->field->children.size();
    place = value_at({&parts[has_all ? path[i] : 0], place.at});
  }
  return place;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
