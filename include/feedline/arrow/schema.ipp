// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/arrow/schema.hpp>

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
