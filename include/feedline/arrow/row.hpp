// SPDX-License-Identifier: MIT
#pragma once
// A row of an Arrow file, with typed fields.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
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

template <class Row>
using row_types = typename row_fields<Row>::types;

template <class Row>
inline constexpr std::size_t column_count = std::tuple_size_v<row_types<Row>>;

/// `names` must have one name per field of the row.
template <class Row>
std::vector<wanted_column> columns_of_row(const std::vector<std::string>& names) {
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

#ifndef FEEDLINE_COMPILED
#include <feedline/arrow/row.ipp>
#endif
