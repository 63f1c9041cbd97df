// SPDX-License-Identifier: MIT
#pragma once
// The columns of an Arrow file: their names and types.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/detail/readable_text.hpp>

namespace feedline::inline v0 {

/// The types of Arrow columns that can be read.
enum class arrow_type : std::uint8_t {
  null, ///< every row is null
  boolean,
  integer,        ///< of 8 to 64 bits, signed or not
  floating_point, ///< of 16, 32 or 64 bits
  utf8,
  large_utf8,
  binary,
  large_binary,
  fixed_size_binary,
  list,
  large_list,
  structure,
  dictionary, ///< each value is the index of one of the dictionary's values
  other,      ///< not supported; arrow_field::other is its name
};

/// A column, or a part of one.
struct arrow_field {
  std::string name;                    ///< of the column, or of the part in its parent
  arrow_type type = arrow_type::other; ///< the kind of its values
  bool is_nullable = false;            ///< whether values may be null
  bool is_signed = false;              ///< of an integer, or of a dictionary's indices
  unsigned bits = 0;                   ///< of a number, or of a dictionary's indices
  std::size_t bytes = 0;               ///< of a fixed_size_binary
  std::vector<arrow_field> children;   ///< a struct's parts, a list's elements, or a dictionary's values
  std::string other;                   ///< such as "timestamp", if the type is `other`

  // The position of its data in each record batch, for readers of batches.
  std::int64_t dictionary = 0; ///< number of the dictionary
  std::size_t node = 0;        ///< position in the batch's nodes
  std::size_t buffer = 0;      ///< position of its first buffer in the batch's buffers, not counting …
  std::size_t view = 0;        ///< … the variadic buffers of this number of columns before it
};

/// "int64", "list<float32>", "struct<bytes: binary, path: utf8>", "dictionary<utf8>". Long texts are
/// shortened.
inline std::string to_string(const arrow_field& field, std::size_t max_length = 500);

/// The columns of a file, in the file's order.
struct arrow_schema {
  std::vector<arrow_field> columns; ///< one for each column
};

/// "`audio`: struct<bytes: binary, path: utf8>, `label`: int64". Long texts are shortened.
inline std::string to_string(const arrow_schema& schema) {
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

namespace detail {

inline void append_arrow_type(std::string& text, const arrow_field& field, std::size_t max_length) {
  if (text.size() > max_length) return;
  const auto children = [&](const char* name, bool with_names) {
    text += name;
    text += '<';
    bool is_first = true;
    for (const arrow_field& child : field.children) {
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
  switch (field.type) {
  case arrow_type::null:
    text += "null";
    break;
  case arrow_type::boolean:
    text += "bool";
    break;
  case arrow_type::integer:
    text += (field.is_signed ? "int" : "uint") + std::to_string(field.bits);
    break;
  case arrow_type::floating_point:
    text += "float" + std::to_string(field.bits);
    break;
  case arrow_type::utf8:
    text += "utf8";
    break;
  case arrow_type::large_utf8:
    text += "large_utf8";
    break;
  case arrow_type::binary:
    text += "binary";
    break;
  case arrow_type::large_binary:
    text += "large_binary";
    break;
  case arrow_type::fixed_size_binary:
    text += "fixed_size_binary<" + std::to_string(field.bytes) + ">";
    break;
  case arrow_type::list:
    children("list", false);
    break;
  case arrow_type::large_list:
    children("large_list", false);
    break;
  case arrow_type::structure:
    children("struct", true);
    break;
  case arrow_type::dictionary:
    children("dictionary", false);
    break;
  case arrow_type::other:
    text += field.other;
    break;
  }
}

/// The positions of children that lead to a column or a part of one.
using arrow_path = std::vector<std::size_t>;

/// The parts of a struct, also of a dictionary's structs; null for other types.
inline const std::vector<arrow_field>* parts_of(const arrow_field& field) {
  if (field.type == arrow_type::structure) return &field.children;
  if (field.type == arrow_type::dictionary) return parts_of(field.children.front());
  return nullptr;
}

/// Finds the column that a name such as `audio.bytes` refers to, also where names contain dots. Returns the
/// number of matches.
inline std::size_t find_arrow_column(const std::vector<arrow_field>& fields, std::string_view name,
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

} // namespace detail

inline std::string to_string(const arrow_field& field, std::size_t max_length) {
  std::string text;
  detail::append_arrow_type(text, field, max_length);
  return text;
}

} // namespace feedline::inline v0
