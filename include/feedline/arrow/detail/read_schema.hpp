// SPDX-License-Identifier: MIT
#pragma once
// Reads a file's columns from its schema message, and the position of each column's data in a record batch.
#include <bit>
#include <cstddef>
#include <string>

#include <feedline/arrow/detail/format_tables.hpp>
#include <feedline/arrow/schema.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

static_assert(std::endian::native == std::endian::little,
              "feedline::arrow returns views of little-endian data, so it needs a little-endian machine");

/// Reads the fields in the order in which record batches store their data.
class schema_reader {
 public:
  explicit schema_reader(int version) : version_(version) {}

  /// Throws arrow_error.
  static arrow_schema read(const schema_table& table, int version);

 private:
  arrow_field field(const field_table& table);

  void take(std::size_t buffers) {
    ++node_;
    buffer_ += buffers;
  }

  void read_type(arrow_field& f, const field_table& table);

  static void read_parameters(arrow_field& f, type_kind kind, const type_table& type);

  static void read_integer(arrow_field& f, const type_table& type);

  /// Throws arrow_error: the column has `what`.
  [[noreturn]] static void refuse(const arrow_field& f, const std::string& what);

  int version_;
  std::size_t node_ = 0;
  std::size_t buffer_ = 0;
  std::size_t view_ = 0;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/arrow/detail/read_schema.ipp>
#endif
