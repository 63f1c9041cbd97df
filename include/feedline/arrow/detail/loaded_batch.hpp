// SPDX-License-Identifier: MIT
#pragma once
// A record batch with the columns that are read, and the memory that holds their values.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <feedline/arrow/arrow_error.hpp>
#include <feedline/arrow/detail/array.hpp>
#include <feedline/arrow/detail/byte_limit.hpp>
#include <feedline/arrow/detail/decompress.hpp>
#include <feedline/arrow/detail/layout.hpp>
#include <feedline/arrow/detail/message.hpp>
#include <feedline/arrow/detail/read_array.hpp>
#include <feedline/arrow/detail/wanted_columns.hpp>
#include <feedline/arrow/schema.hpp>
#include <feedline/detail/function_ref.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The file of a row.
struct arrow_origin {
  std::string path;
  std::size_t number = 0; ///< position in the list of files
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;
};

/// What all batches of a file share.
struct arrow_file {
  arrow_origin origin;
  std::shared_ptr<const arrow_layout> layout; ///< for a pipe, only its schema
  std::vector<arrow_path> paths;              ///< of the columns to read
  std::vector<std::string> names;             ///< of these, as they were asked for
  std::size_t max_batch_bytes = 0;            ///< see arrow_options
  std::size_t max_row_bytes = 0;

  /// Throws arrow_error if the schema of `layout` doesn't have them.
  void find(const wanted_rows& wanted);
};

/// A column of a batch, with what is known of all of its rows.
struct loaded_column {
  arrow_array array;
  /// In the array, to the part that is read; empty if that is the array itself.
  std::span<const std::size_t> path;
  bool is_direct = false; ///< the array has the values
  /// Has the values at the beginning of a dictionary, of which none is null.
  const arrow_array* first = nullptr;
};

/// Values are views of `memory`, which is the file's mapping or the batch's body, and of `own`.
struct loaded_batch {
  std::shared_ptr<const arrow_file> file;
  std::uint64_t first_row = 0; ///< in the file
  std::uint64_t rows = 0;
  std::vector<loaded_column> columns;  ///< the columns to read
  std::string problem;                 ///< why none of its rows can be read
  std::span<const std::byte> metadata; ///< the message, for what isn't one of the columns
  std::span<const std::byte> body;
  std::shared_ptr<const void> memory;
  owned_bytes own;
  bool is_compressed = false;
};

/// A part of a dictionary, and the memory that holds its values.
struct loaded_dictionary : arrow_dictionary {
  std::shared_ptr<const void> memory;
  owned_bytes own;
};

/// The bytes of a message.
struct message_bytes {
  std::span<const std::byte> metadata;
  std::span<const std::byte> body;
  std::shared_ptr<const void> memory; ///< owns the bytes
};

/// The message at a place in a file, whose bytes `memory` owns.
message_bytes bytes_at(const batch_place& place, std::span<const std::byte> file,
                       std::shared_ptr<const void> memory);

/// The dictionaries of a file, read from their batches on first use. Not thread-safe.
class arrow_dictionaries {
 public:
  /// `most`: the most bytes of all dictionaries, see arrow_options::max_batch_bytes.
  explicit arrow_dictionaries(std::size_t most)
      : limit_(most, "the file's dictionaries take", "max_batch_bytes") {}

  /// Returns the dictionary of a field for a batch at this place. `bytes_of(part)` returns the message of a dictionary
  /// batch. Throws arrow_error.
  std::shared_ptr<const arrow_dictionary> find(const arrow_field& field, const arrow_layout& layout,
                                               const batch_place& place,
                                               function_ref<message_bytes(std::size_t part)> bytes_of);

 private:
  // The field, the first part, and the last parts of the dictionaries in the values.
  using key = std::tuple<const arrow_field*, std::size_t, std::vector<std::size_t>>;

  static void add_inner_parts(const arrow_field& field, const arrow_layout& layout, const batch_place& place,
                              std::vector<std::size_t>& parts);

  void load_part(std::deque<loaded_dictionary>& loaded, const arrow_field& values, const message_bytes& bytes,
                 dictionary_finder find_inner);

  // The parts of a dictionary so far; those that are added don't move earlier ones, which other threads may read.
  std::map<key, std::shared_ptr<std::deque<loaded_dictionary>>> loaded_;
  std::set<std::int64_t> in_work_;
  byte_limit limit_;
};

/// Reads a column, or the part at `path` of it, of a batch of at least `rows` rows. Throws arrow_error.
loaded_column load_column(array_reader& reader, const arrow_field& field, std::uint64_t rows,
                          const arrow_path& path);

/// Reads the columns of a record batch, of at most `file->max_batch_bytes` bytes. An error becomes its `problem`.
std::shared_ptr<const loaded_batch> load_batch(const std::shared_ptr<const arrow_file>& file,
                                               const message_bytes& bytes, std::uint64_t first_row,
                                               std::uint64_t rows, dictionary_finder find_dictionary);

/// The same as find_value(), for any column.
arrow_place find_inner_value(const loaded_column& column, std::uint64_t row);

/// The position of a column's value in a row; no array if the value is null.
inline arrow_place find_value(const loaded_column& column, std::uint64_t row) {
  const arrow_array& array = column.array;
  if (!array.valid.empty() && !arrow_array::bit(array.valid, row)) return {};
  if (column.is_direct) [[likely]]
    return {&array, row};
  if (column.first) {
    const auto index = static_cast<std::uint64_t>(dictionary_index(array, row));
    if (index < column.first->length) return {column.first, index};
  }
  return find_inner_value(column, row);
}

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_ARROW)
namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void arrow_file::find(const wanted_rows& wanted) {
  names.clear();
  paths = wanted.columns.empty() ? all_columns(layout->schema) : find_columns(layout->schema, wanted.columns);
  for (std::size_t i = 0; i < paths.size(); ++i)
    names.push_back(wanted.columns.empty() ? field_at(layout->schema, paths[i]).name
                                           : wanted.columns[i].name);
  max_batch_bytes = wanted.options.max_batch_bytes;
  max_row_bytes = wanted.options.max_row_bytes;
}

FEEDLINE_INLINE message_bytes bytes_at(const batch_place& place, std::span<const std::byte> file,
                                       std::shared_ptr<const void> memory) {
  const auto part = [file](std::uint64_t at, std::uint64_t size) {
    return file.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size));
  };
  return {part(place.metadata, place.metadata_size), part(place.body, place.body_size), std::move(memory)};
}

FEEDLINE_INLINE void arrow_dictionaries::add_inner_parts(const arrow_field& field, const arrow_layout& layout,
                                                         const batch_place& place,
                                                         std::vector<std::size_t>& parts) {
  for (const arrow_field& child : field.children) {
    if (child.type == arrow_type::dictionary)
      parts.push_back(layout.parts_of(child.dictionary, place).back());
    add_inner_parts(child, layout, place, parts);
  }
}

FEEDLINE_INLINE std::shared_ptr<const arrow_dictionary>
arrow_dictionaries::find(const arrow_field& field, const arrow_layout& layout, const batch_place& place,
                         function_ref<message_bytes(std::size_t part)> bytes_of) {
  const auto parts = layout.parts_of(field.dictionary, place);
  std::vector<std::size_t> inner_parts;
  add_inner_parts(field, layout, place, inner_parts);
  auto& loaded = loaded_[{&field, parts.front(), std::move(inner_parts)}];
  if (!loaded) loaded = std::make_shared<std::deque<loaded_dictionary>>();
  if (loaded->size() < parts.size()) {
    if (!in_work_.insert(field.dictionary).second) throw arrow_error("the dictionaries contain each other");

    struct done {
      std::set<std::int64_t>& in_work;
      std::int64_t id;

      ~done() { in_work.erase(id); }
    };

    const done d{in_work_, field.dictionary};
    const auto find_inner = [&](const arrow_field& inner) { return find(inner, layout, place, bytes_of); };
    while (loaded->size() < parts.size())
      load_part(*loaded, field.children.front(), bytes_of(parts[loaded->size()]), find_inner);
  }
  return {loaded, &(*loaded)[parts.size() - 1]};
}

FEEDLINE_INLINE void arrow_dictionaries::load_part(std::deque<loaded_dictionary>& loaded,
                                                   const arrow_field& values, const message_bytes& bytes,
                                                   dictionary_finder find_inner) {
  const byte_limit before = limit_;
  loaded_dictionary& made = loaded.emplace_back();
  try {
    limit_.take(sizeof made);
    const message m(bytes.metadata);
    made.memory = bytes.memory;
    made.values = array_reader(m.batch(), bytes.body, find_inner, made.own, limit_).read(values, m.rows());
    made.values.length = m.rows();
    if (loaded.size() > 1) made.follow(loaded[loaded.size() - 2]);
  } catch (...) {
    loaded.pop_back();
    limit_ = before;
    throw;
  }
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
    const arrow_array& first = column.array.dictionary->first->values;
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
  loaded->metadata = bytes.metadata;
  loaded->body = bytes.body;
  loaded->memory = bytes.memory;
  byte_limit limit(file->max_batch_bytes, "it takes", "max_batch_bytes");
  try {
    const message m(bytes.metadata);
    if (m.rows() != rows || m.body_size() != bytes.body.size())
      throw arrow_error("the file has changed since it was opened");
    loaded->is_compressed = m.batch().compression() != nullptr;
    array_reader reader(m.batch(), bytes.body, find_dictionary, loaded->own, limit);
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
#endif
