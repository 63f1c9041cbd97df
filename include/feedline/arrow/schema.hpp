// SPDX-License-Identifier: MIT
#pragma once
// The columns of an Arrow file: their names and types.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// The types of Arrow columns that can be read.
enum class arrow_type : std::uint8_t {
  null, ///< every row is null
  boolean,
  integer,        ///< of 8 to 64 bits, signed or not
  floating_point, ///< of 16, 32 or 64 bits
  utf8,
  large_utf8,
  utf8_view,
  binary,
  large_binary,
  binary_view,
  fixed_size_binary,
  decimal,   ///< of 32 to 256 bits
  date,      ///< days, or milliseconds, since 1970
  time,      ///< of the day
  timestamp, ///< since 1970-01-01 00:00 in UTC or, without a timezone, of the clock on an unknown wall
  duration,
  list,
  large_list,
  fixed_size_list,
  map, ///< a list of structs of a key and a value
  structure,
  dictionary, ///< each value is the index of one of the dictionary's values
  other,      ///< not supported; arrow_field::other is its name
};

/// What the numbers of dates, times, timestamps and durations count.
enum class arrow_unit : std::uint8_t { day, second, millisecond, microsecond, nanosecond };

/// A column, or a part of one.
struct arrow_field {
  std::string name;                    ///< of the column, or of the part in its parent
  arrow_type type = arrow_type::other; ///< the kind of its values
  bool is_nullable = false;            ///< whether values may be null
  bool is_signed = false;              ///< of an integer, a date or time, or of a dictionary's indices
  unsigned bits = 0;                   ///< of a number, a date or time, or of a dictionary's indices
  std::size_t bytes = 0;               ///< of a fixed_size_binary
  std::size_t elements = 0;            ///< of each fixed_size_list
  int precision = 0;                   ///< digits of a decimal
  int scale = 0;                       ///< digits of a decimal after the point
  arrow_unit unit = arrow_unit::day;   ///< of a date, time, timestamp or duration
  std::string timezone;                ///< of a timestamp, such as "UTC"; empty: none
  std::vector<arrow_field> children;   ///< a struct's parts, a list's elements, or a dictionary's values
  std::string other;                   ///< such as "interval", if the type is `other`

  // The position of its data in each record batch, for readers of batches.
  std::int64_t dictionary = 0; ///< number of the dictionary
  std::size_t node = 0;        ///< position in the batch's nodes
  std::size_t buffer = 0;      ///< position of its first buffer in the batch's buffers, not counting …
  std::size_t view = 0;        ///< … the variadic buffers of this number of columns before it

  bool operator==(const arrow_field&) const = default; ///< compares all members
};

/// "int64", "list<float32>", "struct<bytes: binary, path: utf8>", "timestamp<us, UTC>". Long texts are
/// shortened.
std::string to_string(const arrow_field& field, std::size_t max_length = 500);

/// The columns of a file, in the file's order.
struct arrow_schema {
  std::vector<arrow_field> columns; ///< one for each column

  bool operator==(const arrow_schema&) const = default; ///< compares all columns
};

/// "`audio`: struct<bytes: binary, path: utf8>, `label`: int64". Long texts are shortened.
std::string to_string(const arrow_schema& schema);

namespace detail {

/// "utf8", "list".
std::string_view arrow_type_name(arrow_type type);

/// "days", "s", "ms", "us", "ns".
std::string_view unit_name(arrow_unit unit);

void append_arrow_type(std::string& text, const arrow_field& field, std::size_t max_length);

/// The positions of children that lead to a column or a part of one.
using arrow_path = std::vector<std::size_t>;

/// The parts of a struct, also of a dictionary's structs; null for other types.
const std::vector<arrow_field>* parts_of(const arrow_field& field);

/// Finds the column that a name such as `audio.bytes` refers to, also where names contain dots. Returns the
/// number of matches.
std::size_t find_arrow_column(const std::vector<arrow_field>& fields, std::string_view name, arrow_path& path,
                              arrow_path& found);

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_ARROW)
#include <utility>

#include <feedline/arrow/detail/type_layout.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE std::string to_string(const arrow_schema& schema) {
  constexpr std::size_t max_length = 2000; // characters
  if (schema.columns.empty()) return "no columns";
  std::string text;
  for (const arrow_field& column : schema.columns) {
    if (text.size() > max_length) return text + ", …";
    if (!text.empty()) text += ", ";
    text += detail::in_backticks(column.name) + ": " + to_string(column);
  }
  return text;
}

} // namespace feedline::inline FEEDLINE_ABI

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::string_view unit_name(arrow_unit unit) {
  constexpr std::string_view names[]{"days", "s", "ms", "us", "ns"};
  return names[static_cast<std::size_t>(unit)];
}

FEEDLINE_INLINE void append_arrow_type(std::string& text, const arrow_field& field, std::size_t max_length) {
  if (text.size() > max_length) return;
  const auto children = [&](const std::vector<arrow_field>& all, bool with_names) {
    text += '<';
    bool is_first = true;
    for (const arrow_field& child : all) {
      if (text.size() > max_length) {
        text += ", …";
        break;
      }
      if (!std::exchange(is_first, false)) text += ", ";
      if (with_names) text += readable(std::string_view(child.name).substr(0, max_length)) + ": ";
      append_arrow_type(text, child, max_length);
    }
    text += '>';
  };
  const std::string unit(unit_name(field.unit));
  text += field.type == arrow_type::other ? field.other : arrow_type_name(field.type);
  switch (field.type) {
  case arrow_type::integer:
    if (!field.is_signed) text.insert(text.size() - 3, 1, 'u');
    [[fallthrough]];
  case arrow_type::floating_point:
  case arrow_type::date:
    text += std::to_string(field.bits);
    break;
  case arrow_type::fixed_size_binary:
    text += '<' + std::to_string(field.bytes) + '>';
    break;
  case arrow_type::decimal:
    text += std::to_string(field.bits) + '<' + std::to_string(field.precision) + ", " +
            std::to_string(field.scale) + '>';
    break;
  case arrow_type::time:
    text += std::to_string(field.bits) + '<' + unit + '>';
    break;
  case arrow_type::timestamp:
    text += '<' + unit;
    if (!field.timezone.empty())
      text += ", " + readable(std::string_view(field.timezone).substr(0, max_length));
    text += '>';
    break;
  case arrow_type::duration:
    text += '<' + unit + '>';
    break;
  case arrow_type::fixed_size_list:
    children(field.children, false);
    text.insert(text.size() - 1, ", " + std::to_string(field.elements));
    break;
  case arrow_type::map:
    if (!field.children.empty()) children(field.children.front().children, false);
    break;
  case arrow_type::list:
  case arrow_type::large_list:
  case arrow_type::dictionary:
  case arrow_type::structure:
    children(field.children, field.type == arrow_type::structure);
    break;
  default:
    break;
  }
}

FEEDLINE_INLINE const std::vector<arrow_field>* parts_of(const arrow_field& field) {
  if (field.type == arrow_type::structure) return &field.children;
  if (field.type == arrow_type::dictionary) return parts_of(field.children.front());
  return nullptr;
}

FEEDLINE_INLINE std::size_t find_arrow_column(const std::vector<arrow_field>& fields, std::string_view name,
                                              arrow_path& path, arrow_path& found) {
  std::size_t times = 0;
  for (std::size_t i = 0; i < fields.size() && times < 2; ++i) {
    const std::string_view own = fields[i].name;
    if (!name.starts_with(own)) continue;
    path.push_back(i);
    if (name.size() == own.size()) {
      found = path;
      ++times;
    } else if (name[own.size()] == '.') {
      if (const auto* parts = parts_of(fields[i]))
        times += find_arrow_column(*parts, name.substr(own.size() + 1), path, found);
    }
    path.pop_back();
  }
  return times;
}

} // namespace feedline::inline FEEDLINE_ABI::detail

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE std::string to_string(const arrow_field& field, std::size_t max_length) {
  std::string text;
  detail::append_arrow_type(text, field, max_length);
  return text;
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
