// SPDX-License-Identifier: MIT
#pragma once
// Finds the columns that the user names.
#include <string>
#include <vector>

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

/// If the column is a struct {bytes, path}, as Hugging Face stores audio and images, but bytes are expected,
/// appends the part `bytes` to the path.
void go_to_bytes(const arrow_schema& schema, const wanted_column& column, arrow_path& path);

/// Throws arrow_error; its message lists the file's columns.
std::vector<arrow_path> find_columns(const arrow_schema& schema, const std::vector<wanted_column>& columns);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/arrow/detail/wanted_columns.ipp>
#endif
