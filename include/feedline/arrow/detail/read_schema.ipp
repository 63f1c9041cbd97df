// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/arrow/detail/read_schema.hpp>

#include <cstdint>
#include <string>

#include <feedline/arrow/arrow_error.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE arrow_schema schema_reader::read(const schema_table& table, int version) {
  if (table.is_big_endian()) throw arrow_error("the data is big-endian, which feedline doesn't support");
  arrow_schema schema;
  schema_reader reader(version);
  for (std::size_t i = 0; i < table.columns(); ++i) schema.columns.push_back(reader.field(table.column(i)));
  return schema;
}

FEEDLINE_INLINE arrow_field schema_reader::field(const field_table& table) {
  arrow_field f;
  f.name = table.name();
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
  schema_reader of_values(version_); // a dictionary's batches contain only the values
  arrow_field& values = f.children.emplace_back();
  values.name = f.name;
  values.is_nullable = true;
  of_values.read_type(values, table);
  return f;
}

FEEDLINE_INLINE void schema_reader::read_type(arrow_field& f, const field_table& table) {
  const type_table* const type = table.type();
  if (!type) throw arrow_error("column " + in_backticks(f.name) + " has no type");
  const auto plain = [&](arrow_type t, std::size_t buffers) {
    f.type = t;
    take(buffers);
  };
  const auto other = [&](const char* name, std::size_t buffers) {
    f.other = name;
    take(buffers);
  };
  const auto with_element = [&] {
    if (table.children() != 1)
      throw arrow_error("column " + in_backticks(f.name) + " is a list with " +
                        std::to_string(table.children()) + " element types");
    f.children.push_back(field(table.child(0)));
  };
  const auto with_children = [&] {
    for (std::size_t i = 0; i < table.children(); ++i) f.children.push_back(field(table.child(i)));
  };
  switch (table.kind()) {
  case type_kind::null:
    return plain(arrow_type::null, 0);
  case type_kind::boolean:
    return plain(arrow_type::boolean, 2);
  case type_kind::integer:
    read_integer(f, *type);
    return plain(arrow_type::integer, 2);
  case type_kind::floating_point: {
    const int precision = type->number<std::int16_t>(type_table::precision, 0);
    if (precision < 0 || precision > 2)
      throw arrow_error("column " + in_backticks(f.name) + " has floats of unknown precision");
    f.bits = 16u << precision;
    return plain(arrow_type::floating_point, 2);
  }
  case type_kind::utf8:
    return plain(arrow_type::utf8, 3);
  case type_kind::large_utf8:
    return plain(arrow_type::large_utf8, 3);
  case type_kind::binary:
    return plain(arrow_type::binary, 3);
  case type_kind::large_binary:
    return plain(arrow_type::large_binary, 3);
  case type_kind::fixed_size_binary: {
    const auto size = type->number<std::int32_t>(type_table::size, 0);
    if (size < 0)
      throw arrow_error("column " + in_backticks(f.name) + " has values of " + std::to_string(size) +
                        " bytes");
    f.bytes = static_cast<std::size_t>(size);
    return plain(arrow_type::fixed_size_binary, 2);
  }
  case type_kind::list:
    plain(arrow_type::list, 2);
    return with_element();
  case type_kind::large_list:
    plain(arrow_type::large_list, 2);
    return with_element();
  case type_kind::structure:
    plain(arrow_type::structure, 1);
    return with_children();
  case type_kind::decimal:
    return other("decimal", 2);
  case type_kind::date:
    return other("date", 2);
  case type_kind::time:
    return other("time", 2);
  case type_kind::timestamp:
    return other("timestamp", 2);
  case type_kind::interval:
    return other("interval", 2);
  case type_kind::duration:
    return other("duration", 2);
  case type_kind::fixed_size_list:
    other("fixed_size_list", 1);
    return with_children();
  case type_kind::map:
    other("map", 2);
    return with_children();
  case type_kind::list_view:
    other("list_view", 3);
    return with_children();
  case type_kind::large_list_view:
    other("large_list_view", 3);
    return with_children();
  case type_kind::run_end_encoded:
    other("run_end_encoded", 0);
    return with_children();
  case type_kind::union_of: {
    const bool is_dense = type->number<std::int16_t>(type_table::mode, 0) == 1;
    constexpr int v4 = 3; // its unions have a null bitmap
    other("union", (is_dense ? 2u : 1u) + (version_ <= v4));
    return with_children();
  }
  case type_kind::binary_view:
  case type_kind::utf8_view:
    other(table.kind() == type_kind::utf8_view ? "utf8_view" : "binary_view", 2);
    ++view_;
    return;
  default:
    throw arrow_error("column " + in_backticks(f.name) + " has a type with the number " +
                      std::to_string(static_cast<int>(table.kind())) +
                      ", which this version of feedline doesn't know");
  }
}

FEEDLINE_INLINE void schema_reader::read_integer(arrow_field& f, const type_table& type) {
  const auto bits = type.number<std::int32_t>(type_table::bit_width, 0);
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
    throw arrow_error("column " + in_backticks(f.name) + " has integers of " + std::to_string(bits) +
                      " bits");
  f.bits = static_cast<unsigned>(bits);
  f.is_signed = type.number<std::uint8_t>(type_table::is_signed, 0) != 0;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
