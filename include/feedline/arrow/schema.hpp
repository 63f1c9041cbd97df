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

/// The types of Arrow's columns, as far as they are read.
enum class arrow_type : std::uint8_t {
  null, ///< no value at all: every row is null
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
  dictionary, ///< each value is a number, which stands for one of the dictionary's values
  other,      ///< one that isn't read: its name is in arrow_field::other
};

/// A column, or a part of one.
struct arrow_field {
  std::string name;
  arrow_type type = arrow_type::other;
  bool is_nullable = false;
  bool is_signed = false; ///< of an integer, or of a dictionary's numbers
  unsigned bits = 0;      ///< of a number, or of a dictionary's numbers
  std::size_t bytes = 0;  ///< of a fixed_size_binary
  std::vector<arrow_field>
      children;      ///< of a struct its fields; of a list its elements; of a dictionary its values
  std::string other; ///< "timestamp", where the type is `other`

  // Where its data is in each record batch, for those that read one.
  std::int64_t dictionary = 0; ///< which one
  std::size_t node = 0;        ///< its number among the batch's nodes
  std::size_t buffer = 0;      ///< its first number among the batch's buffers, …
  std::size_t view = 0;        ///< … to which the variadic buffers of so many columns before it are added
};

/// "int64", "list<float32>", "struct<bytes: binary, path: utf8>", "dictionary<utf8>". Very long ones are shortened.
inline std::string to_string(const arrow_field& field, std::size_t most = 500);

/// The columns of a file, in its order.
struct arrow_schema {
  std::vector<arrow_field> columns;
};

/// "`audio`: struct<bytes: binary, path: utf8>, `label`: int64". Very long ones are shortened.
inline std::string to_string(const arrow_schema& schema) {
  constexpr std::size_t most = 2000; // characters
  if (schema.columns.empty()) return "no columns";
  std::string text;
  for (const arrow_field& column : schema.columns) {
    if (text.size() > most) return text + ", …";
    if (!text.empty()) text += ", ";
    text += detail::in_backticks(column.name) + ": " + to_string(column);
  }
  return text;
}

namespace detail {

inline void append_arrow_type(std::string& text, const arrow_field& field, std::size_t most) {
  if (text.size() > most) return;
  const auto children = [&](const char* name, bool with_names) {
    text += name;
    text += '<';
    bool is_first = true;
    for (const arrow_field& child : field.children) {
      if (text.size() > most) {
        text += ", …";
        break;
      }
      if (!std::exchange(is_first, false)) text += ", ";
      if (with_names) text += readable(std::string_view(child.name).substr(0, most)) + ": ";
      append_arrow_type(text, child, most);
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

/// The numbers of children that lead to a column or a part of one.
using arrow_path = std::vector<std::size_t>;

/// The fields among which a struct's part is looked for, also where a dictionary has its values.
inline const std::vector<arrow_field>* parts_of(const arrow_field& field) {
  if (field.type == arrow_type::structure) return &field.children;
  if (field.type == arrow_type::dictionary) return parts_of(field.children.front());
  return nullptr;
}

/// Where the column is that a name like `audio.bytes` means. Names with dots in them are found, too. How many it
/// might mean is counted.
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

inline std::string to_string(const arrow_field& field, std::size_t most) {
  std::string text;
  detail::append_arrow_type(text, field, most);
  return text;
}

} // namespace feedline::inline v0
