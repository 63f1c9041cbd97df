// SPDX-License-Identifier: MIT
#pragma once
// A row of an Arrow file, with typed fields.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <feedline/arrow/arrow_error.hpp>
#include <feedline/arrow/detail/cell.hpp>
#include <feedline/arrow/detail/loaded_batch.hpp>
#include <feedline/arrow/detail/wanted_columns.hpp>
#include <feedline/arrow/schema.hpp>
#include <feedline/arrow/value.hpp>
#include <feedline/core/random.hpp>
#include <feedline/detail/fields.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// A row whose columns are only known when the program runs: `arrow_rows<arrow_record>(files, {"image", "label"})`, or with an empty
/// list all columns of each file that can be read.
class arrow_record {
 public:
  /// A column's name, and its value in the row.
  using column = std::pair<std::string_view, arrow_value>;

  /// Rows call it.
  explicit arrow_record(std::vector<column> columns) : columns_(std::move(columns)) {}

  ///@{
  /// The columns in the order of the list or the file: views, which the row keeps.
  auto begin() const noexcept { return columns_.begin(); }

  auto end() const noexcept { return columns_.end(); }

  std::size_t size() const noexcept { return columns_.size(); }

  ///@}

  /// The value of a column; null if there is no such column.
  const arrow_value* find(std::string_view name) const noexcept {
    for (const auto& [own, value] : columns_)
      if (own == name) return &value;
    return nullptr;
  }

 private:
  std::vector<column> columns_;
};

namespace detail {

/// The fields of a row, one per column: those of a struct, pair or tuple, or a single value.
template <class Row>
struct row_fields {
  static constexpr bool exist = false;
};

template <arrow_readable Row>
struct row_fields<Row> {
  static constexpr bool exist = true;
  using types = std::tuple<Row>;

  static Row make(auto&&... value) { return (std::move(value), ...); }
};

template <class Fields>
struct cells_of;

template <class... Field>
struct cells_of<std::tuple<Field&...>> {
  static constexpr bool exist = sizeof...(Field) > 0 && (arrow_readable<Field> && ...);
  using types = std::tuple<Field...>;
};

template <class Row>
  requires(!arrow_readable<Row> && has_fields<Row>)
struct row_fields<Row> : cells_of<decltype(fields_of(std::declval<Row&>()))> {
  static constexpr bool exist = cells_of<decltype(fields_of(std::declval<Row&>()))>::exist;
};

template <>
struct row_fields<arrow_record> {
  static constexpr bool exist = true;
  using types = std::tuple<arrow_record>;
};

template <class Row>
using row_types = typename row_fields<Row>::types;

template <class Row>
inline constexpr std::size_t column_count = std::tuple_size_v<row_types<Row>>;

/// `names` must have one name per field of the row.
template <class Row>
std::vector<wanted_column> columns_of_row(const std::vector<std::string>& names) {
  if constexpr (std::same_as<Row, arrow_record>) {
    std::vector<wanted_column> columns;
    for (const std::string& name : names) columns.push_back(want<arrow_value>(name));
    return columns;
  } else
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::vector<wanted_column>{want<std::tuple_element_t<I, row_types<Row>>>(names[I])...};
    }(std::make_index_sequence<column_count<Row>>());
}

std::string row_text(const arrow_file& file, std::uint64_t row);
[[noreturn]] void throw_unread_batch(const loaded_batch& batch, std::uint64_t row);

/// Throws an error of a cell again, with the names of its row and column.
[[noreturn]] void throw_unread_cell(const loaded_batch& batch, std::uint64_t row, std::size_t column,
                                    const arrow_error& error);

template <class T>
T read_cell(const loaded_batch& batch, std::size_t column, std::uint64_t row, byte_limit& limit,
            std::size_t& reached) {
  reached = column;
  return read_within<T>(find_value(batch.columns[column], row), limit);
}

/// Reads row `row` of a batch. Throws arrow_error.
template <class Row>
Row read_row(const loaded_batch& batch, std::uint64_t row) {
  if (!batch.problem.empty()) [[unlikely]]
    throw_unread_batch(batch, row);
  std::size_t column = 0;
  byte_limit limit = row_limit(batch.file->max_row_bytes);
  try {
    if constexpr (std::same_as<Row, arrow_record>) {
      std::vector<arrow_record::column> values;
      values.reserve(batch.columns.size());
      for (std::size_t i = 0; i < batch.columns.size(); ++i) {
        values.emplace_back(batch.file->names[i], read_cell<arrow_value>(batch, i, row, limit, column));
        look_through(values.back().second, limit);
      }
      return Row(std::move(values));
    } else
      return [&]<std::size_t... I>(std::index_sequence<I...>) {
        if constexpr (arrow_readable<Row>) return read_cell<Row>(batch, 0, row, limit, column);
        else return Row{read_cell<std::tuple_element_t<I, row_types<Row>>>(batch, I, row, limit, column)...};
      }(std::make_index_sequence<column_count<Row>>());
  } catch (const arrow_error& error) {
    throw_unread_cell(batch, row, column, error);
  }
}

} // namespace detail

/// A row of an Arrow file: a Row, whose texts, bytes and lists are views of the mapped file. (For a pipe or a
/// compressed file they are views of the record batch in memory.) The row keeps this memory alive, even after
/// the source is destroyed.
template <class Row>
class arrow_row {
 public:
  /// Sources call it. Throws arrow_error.
  arrow_row(std::shared_ptr<const detail::loaded_batch> batch, std::uint64_t row)
      : value_(detail::read_row<Row>(*batch, row)), batch_(std::move(batch)), row_(row) {}

  /// The fields. Copy fields that are views if you need them longer than the row.
  const Row& operator*() const& noexcept { return value_; }

  const Row* operator->() const noexcept { return &value_; }

  // Deleted, because views of a temporary row would dangle: name the row first.
  const Row& operator*() const&& = delete;

  /// The number of the row in its file.
  std::uint64_t row() const noexcept { return batch_->first_row + row_; }

  /// The position of the file in the list of files.
  std::size_t file_number() const noexcept { return batch_->file->origin.number; }

  /// The file's name, as passed to the source.
  const std::string& file() const& noexcept { return batch_->file->origin.path; }

  /// A hash that identifies the row and its content: of the file's name, size and modification time, the
  /// row's number, and the columns that are read.
  std::uint64_t identity() const noexcept {
    const detail::arrow_origin& origin = batch_->file->origin;
    std::uint64_t hash = detail::key(stable_hash(origin.path), origin.bytes,
                                     static_cast<std::uint64_t>(origin.modified_ns), row());
    for (const detail::arrow_path& path : batch_->file->paths)
      for (const std::size_t part : path) hash = detail::key(hash, path.size(), part);
    return hash;
  }

  /// The file and the row: "digits-000.arrow: row 17".
  std::string origin() const { return detail::row_text(*batch_->file, row()); }

 private:
  Row value_;
  std::shared_ptr<const detail::loaded_batch> batch_;
  std::uint64_t row_ = 0; // in the batch
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_ARROW)
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
#endif
