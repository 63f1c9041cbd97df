// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/arrow/schema.hpp>

#include <utility>

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

FEEDLINE_INLINE void append_arrow_type(std::string& text, const arrow_field& field, std::size_t max_length) {
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
