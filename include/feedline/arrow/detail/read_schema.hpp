// SPDX-License-Identifier: MIT
#pragma once
// Reads a file's columns from its schema message, and the position of each column's data in a record batch.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <feedline/arrow/arrow_error.hpp>
#include <feedline/arrow/detail/format_tables.hpp>
#include <feedline/arrow/schema.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

static_assert(std::endian::native == std::endian::little,
              "feedline::arrow returns views of little-endian data, so it needs a little-endian machine");

/// Reads the fields in the order in which record batches store their data.
class schema_reader {
 public:
  /// `texts`: how many bytes of texts the columns may have.
  schema_reader(int version, std::size_t& texts) : version_(version), texts_(texts) {}

  /// `size`: the bytes of the metadata, which is also the most that its texts have in all: a hostile schema could use a
  /// long name for any number of columns. Throws arrow_error.
  static arrow_schema read(const schema_table& table, int version, std::size_t size) {
    if (table.is_big_endian()) throw arrow_error("the data is big-endian, which feedline doesn't support");
    arrow_schema schema;
    schema_reader reader(version, size);
    for (std::size_t i = 0; i < table.columns(); ++i) schema.columns.push_back(reader.field(table.column(i)));
    return schema;
  }

 private:
  arrow_field field(const field_table& table) {
    arrow_field f;
    f.name = text(table.name());
    f.is_nullable = table.is_nullable();
    f.node = node_;
    f.buffer = buffer_;
    f.view = view_;
    const dictionary_table* const dictionary = table.dictionary();
    if (!dictionary) {
      read_type(f, table);
      return f;
    }
    f.type = arrow_type::dictionary;
    f.dictionary = dictionary->id();
    f.is_signed = true;
    f.bits = 32;
    if (dictionary->index()) read_integer(f, *dictionary->index());
    take(2);
    schema_reader of_values(version_, texts_); // a dictionary's batches contain only the values
    arrow_field& values = f.children.emplace_back();
    values.name = f.name;
    values.is_nullable = true;
    of_values.read_type(values, table);
    return f;
  }

  std::string_view text(std::string_view stored) {
    if (stored.size() > texts_) throw arrow_error("the texts of the schema are longer than its metadata");
    texts_ -= stored.size();
    return stored;
  }

  void take(std::size_t buffers) {
    ++node_;
    buffer_ += buffers;
  }

  void read_type(arrow_field& f, const field_table& table) {
    if (!table.type()) throw arrow_error("column " + in_backticks(f.name) + " has no type");
    const type_layout* const layout = layout_of(table.kind());
    if (!layout)
      refuse(f, "a type with the number " + std::to_string(static_cast<int>(table.kind())) +
                    ", which this version of feedline doesn't know");
    f.type = layout->type;
    if (f.type == arrow_type::other) f.other = layout->name;
    read_parameters(f, table.kind(), *table.type());
    std::size_t buffers = layout->count;
    constexpr int v4 = 3; // its unions have a null bitmap
    if (table.kind() == type_kind::union_of)
      buffers += (table.type()->number<std::int16_t>(type_table::mode, 0) == 1 ? 1u : 0u) + (version_ <= v4);
    take(buffers);
    view_ += layout->holds == arrow_buffers::views;
    const bool has_elements = layout->holds == arrow_buffers::lists;
    if (has_elements && table.children() != 1)
      refuse(f, "lists with " + std::to_string(table.children()) + " element types");
    if (has_elements || layout->holds == arrow_buffers::parts || layout->holds == arrow_buffers::unknown)
      for (std::size_t i = 0; i < table.children(); ++i) f.children.push_back(field(table.child(i)));
    if (f.type == arrow_type::map &&
        (f.children.front().type != arrow_type::structure || f.children.front().children.size() != 2))
      refuse(f, "maps whose elements aren't a key and a value");
  }

  void read_parameters(arrow_field& f, type_kind kind, const type_table& type) {
    const auto int_at = [&](unsigned number, std::int32_t otherwise) {
      return type.number<std::int32_t>(number, otherwise);
    };
    const auto read_unit = [&](int otherwise) {
      const int unit = 1 + type.number<std::int16_t>(type_table::unit, static_cast<std::int16_t>(otherwise));
      if (unit < 1 || unit > 4) refuse(f, "an unknown unit of time");
      f.unit = static_cast<arrow_unit>(unit);
      f.bits = 64;
      f.is_signed = true;
    };
    switch (kind) {
    case type_kind::integer:
      return read_integer(f, type);
    case type_kind::floating_point: {
      const int precision = type.number<std::int16_t>(type_table::precision, 0);
      if (precision < 0 || precision > 2) refuse(f, "floats of unknown precision");
      f.bits = 16u << precision;
      return;
    }
    case type_kind::fixed_size_binary:
    case type_kind::fixed_size_list: {
      const auto size = int_at(type_table::size, 0);
      const bool is_list = kind == type_kind::fixed_size_list;
      if (size < 0)
        refuse(f, (is_list ? "lists of " : "values of ") + std::to_string(size) +
                      (is_list ? " elements" : " bytes"));
      (is_list ? f.elements : f.bytes) = static_cast<std::size_t>(size);
      return;
    }
    case type_kind::decimal: {
      const auto bits = int_at(type_table::decimal_bits, 128);
      if (bits != 32 && bits != 64 && bits != 128 && bits != 256)
        refuse(f, "decimals of " + std::to_string(bits) + " bits");
      f.bits = static_cast<unsigned>(bits);
      f.precision = int_at(type_table::digits, 0);
      f.scale = int_at(type_table::scale, 0);
      constexpr int max_scale = 1000; // so that no text is long
      if (f.scale < -max_scale || f.scale > max_scale)
        refuse(f, "decimals with a scale of " + std::to_string(f.scale));
      return;
    }
    case type_kind::date:
      read_unit(1);
      if (f.unit > arrow_unit::millisecond) refuse(f, "an unknown unit of time");
      if (f.unit == arrow_unit::second) { // of a date, number 0 is days
        f.unit = arrow_unit::day;
        f.bits = 32;
      }
      return;
    case type_kind::time: {
      read_unit(1);
      const auto bits = int_at(type_table::time_bits, 32);
      f.bits = f.unit <= arrow_unit::millisecond ? 32 : 64;
      if (bits != static_cast<std::int32_t>(f.bits))
        refuse(f, "times of " + std::to_string(bits) + " bits in " + std::string(unit_name(f.unit)));
      return;
    }
    case type_kind::timestamp:
      read_unit(0);
      f.timezone = text(type.text(type_table::timezone));
      return;
    case type_kind::duration:
      return read_unit(1);
    default:
      return;
    }
  }

  static void read_integer(arrow_field& f, const type_table& type) {
    const auto bits = type.number<std::int32_t>(type_table::bit_width, 0);
    if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
      refuse(f, "integers of " + std::to_string(bits) + " bits");
    f.bits = static_cast<unsigned>(bits);
    f.is_signed = type.number<std::uint8_t>(type_table::is_signed, 0) != 0;
  }

  /// Throws arrow_error: the column has `what`.
  [[noreturn]] static void refuse(const arrow_field& f, const std::string& what) {
    throw arrow_error("column " + in_backticks(f.name) + " has " + what);
  }

  int version_;
  std::size_t& texts_;
  std::size_t node_ = 0;
  std::size_t buffer_ = 0;
  std::size_t view_ = 0;
};

} // namespace feedline::inline FEEDLINE_ABI::detail
