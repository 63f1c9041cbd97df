// SPDX-License-Identifier: MIT
#pragma once
// Finds the columns that the user names.
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <feedline/arrow/arrow_options.hpp>
#include <feedline/arrow/detail/cell.hpp>
#include <feedline/arrow/schema.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A column's name, and the type that its values are read as.
struct wanted_column {
  std::string name;
  bool (*accepts)(const arrow_field&);
  std::string (*wanted)();
};

template <class T>
wanted_column want(const std::string& name) {
  return {name, arrow_cell<T>::accepts, arrow_cell<T>::wanted};
}

const arrow_field& field_at(const arrow_schema& schema, const arrow_path& path);

/// Memory in addition to the mapped files.
struct memory_of_batches {
  std::uint64_t batch_and_dictionaries = 0; ///< the most for a record batch and the dictionaries of its file
  std::uint64_t by_position = 0;            ///< the dictionaries of all files, and recent_batches
  std::size_t columns = 0;                  ///< of the file with the most
};

/// What a source reads, shared by all of its copies.
struct wanted_rows {
  std::vector<wanted_column> columns; // none: all that can be read
  arrow_options options;
  mutable std::mutex mutex; // for the members below
  /// Once it was looked for; empty inside: unknown.
  mutable std::optional<std::optional<memory_of_batches>> memory{};
  mutable bool has_noticed = false;

  /// Says once that bytes after the end of a stream are left out.
  void notice(const std::string& path, std::uint64_t left_out) const;
};

/// Throws std::invalid_argument for a size that was negative.
std::shared_ptr<const wanted_rows> want_rows(std::vector<wanted_column> columns, arrow_options options);

/// If the column is a struct {bytes, path}, as Hugging Face stores audio and images, but bytes are expected,
/// appends the part `bytes` to the path.
void go_to_bytes(const arrow_schema& schema, const wanted_column& column, arrow_path& path);

/// Those that can be read. Throws arrow_error if there are none, or two with one name.
std::vector<arrow_path> all_columns(const arrow_schema& schema);

/// Throws arrow_error; its message lists the file's columns.
std::vector<arrow_path> find_columns(const arrow_schema& schema, const std::vector<wanted_column>& columns);

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_ARROW)
#include <cstddef>
#include <utility>

#include <feedline/arrow/arrow_error.hpp>
#include <feedline/arrow/detail/array.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::shared_ptr<const wanted_rows> want_rows(std::vector<wanted_column> columns,
                                                             arrow_options options) {
  refuse_negative(options.max_batch_bytes, "feedline::arrow_rows: max_batch_bytes");
  refuse_negative(options.max_row_bytes, "feedline::arrow_rows: max_row_bytes");
  auto wanted = std::make_shared<wanted_rows>();
  wanted->columns = std::move(columns);
  wanted->options = std::move(options);
  return wanted;
}

FEEDLINE_INLINE void wanted_rows::notice(const std::string& path, std::uint64_t left_out) const {
  {
    const std::lock_guard lock(mutex);
    if (left_out == 0 || std::exchange(has_noticed, true)) return;
  }
  try {
    notify(options.on_notice,
           readable(path) + ": " + std::to_string(left_out) +
               " bytes follow the end of the stream and aren't read; if they are further streams, set "
               "`concatenated` in arrow_options to read them too. Further files aren't reported");
  } catch (...) { // a notice isn't worth a failure
  }
}

FEEDLINE_INLINE const arrow_field& field_at(const arrow_schema& schema, const arrow_path& path) {
  const arrow_field* field = &schema.columns[path.front()];
  for (std::size_t i = 1; i < path.size(); ++i) field = &(*parts_of(*field))[path[i]];
  return *field;
}

FEEDLINE_INLINE void go_to_bytes(const arrow_schema& schema, const wanted_column& column, arrow_path& path) {
  const arrow_field& type = field_at(schema, path);
  if (type.type != arrow_type::structure || column.accepts(type)) return;
  const std::vector<arrow_field>& parts = *parts_of(type);
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (parts[i].name == "bytes" && column.accepts(value_field(parts[i]))) {
      path.push_back(i);
      return;
    }
}

FEEDLINE_INLINE std::vector<arrow_path> all_columns(const arrow_schema& schema) {
  std::vector<arrow_path> paths;
  for (std::size_t i = 0; i < schema.columns.size(); ++i)
    if (is_readable(value_field(schema.columns[i]))) {
      for (const arrow_path& other : paths)
        if (schema.columns[other.front()].name == schema.columns[i].name)
          throw arrow_error("there are several columns " + in_backticks(schema.columns[i].name) +
                            "; the file has " + to_string(schema));
      paths.push_back({i});
    }
  if (paths.empty()) throw arrow_error("no column can be read; the file has " + to_string(schema));
  return paths;
}

FEEDLINE_INLINE std::vector<arrow_path> find_columns(const arrow_schema& schema,
                                                     const std::vector<wanted_column>& columns) {
  std::vector<arrow_path> paths;
  for (const wanted_column& column : columns) {
    arrow_path path;
    const std::size_t times = find_arrow_column(schema.columns, column.name, path, paths.emplace_back());
    const std::string there = "; the file has " + to_string(schema);
    if (times == 0) throw arrow_error("there is no column " + in_backticks(column.name) + there);
    if (times > 1) throw arrow_error("there are several columns " + in_backticks(column.name) + there);
    go_to_bytes(schema, column, paths.back());
    const arrow_field& type = value_field(field_at(schema, paths.back()));
    if (!column.accepts(type))
      throw arrow_error("column " + in_backticks(column.name) + " is of type " + to_string(type) +
                        ", but the field needs " + column.wanted() + there);
  }
  return paths;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
