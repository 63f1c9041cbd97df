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
};

/// What a source reads, shared by all of its copies.
struct wanted_rows {
  std::vector<wanted_column> columns;
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

/// Throws arrow_error; its message lists the file's columns.
std::vector<arrow_path> find_columns(const arrow_schema& schema, const std::vector<wanted_column>& columns);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/arrow/detail/wanted_columns.ipp>
#endif
