// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/arrow/detail/loaded_batch.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE message_bytes bytes_at(const batch_place& place, std::span<const std::byte> file,
                                       std::shared_ptr<const void> memory) {
  const auto part = [file](std::uint64_t at, std::uint64_t size) {
    return file.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size));
  };
  return {part(place.metadata, place.metadata_size), part(place.body, place.body_size), std::move(memory)};
}

FEEDLINE_INLINE bool arrow_dictionaries::has_dictionaries(const arrow_field& field) {
  for (const arrow_field& child : field.children)
    if (child.type == arrow_type::dictionary || has_dictionaries(child)) return true;
  return false;
}

FEEDLINE_INLINE std::shared_ptr<const arrow_dictionary>
arrow_dictionaries::find(const arrow_field& field, const arrow_layout& layout, std::size_t known,
                         function_ref<message_bytes(std::size_t part)> bytes_of) {
  const std::vector<std::size_t> parts = layout.parts_of(field.dictionary, known);
  if (parts.empty()) throw arrow_error("dictionary " + std::to_string(field.dictionary) + " is missing");
  const std::size_t known_to_values = has_dictionaries(field) ? known : 0;
  auto& found = whole_[{&field, parts.back(), known_to_values}];
  if (found) return found;
  if (!in_work_.insert(field.dictionary).second) throw arrow_error("the dictionaries contain each other");

  struct done {
    std::set<std::int64_t>& in_work;
    std::int64_t id;

    ~done() { in_work.erase(id); }
  };

  const done d{in_work_, field.dictionary};
  const auto find_inner = [&](const arrow_field& inner) { return find(inner, layout, known, bytes_of); };
  auto whole = std::make_shared<arrow_dictionary>();
  for (const std::size_t part : parts) {
    auto& loaded = parts_[{&field, part, known_to_values}];
    if (!loaded) {
      const message_bytes bytes = bytes_of(part);
      const message m(bytes.metadata);
      auto made = std::make_shared<loaded_values>();
      made->memory = bytes.memory;
      made->array =
          array_reader(m.batch(), bytes.body, find_inner, made->own).read(field.children.front(), m.rows());
      made->array.length = m.rows();
      loaded = std::move(made);
    }
    whole->parts.emplace_back(loaded, &loaded->array);
    whole->ends.push_back(whole->size() + loaded->array.length);
  }
  return found = std::move(whole);
}

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
                                                               dictionary_finder find_dictionary) {
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
    array_reader reader(m.batch(), bytes.body, find_dictionary, loaded->own);
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
