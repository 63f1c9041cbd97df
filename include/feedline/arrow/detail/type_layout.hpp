// SPDX-License-Identifier: MIT
#pragma once
// How each type of Arrow is described in a schema and laid out in a record batch.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <feedline/arrow/schema.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The kinds of types, as Schema.fbs numbers them.
enum class type_kind : std::uint8_t {
  none,
  null,
  integer,
  floating_point,
  binary,
  utf8,
  boolean,
  decimal,
  date,
  time,
  timestamp,
  interval,
  list,
  structure,
  union_of,
  fixed_size_binary,
  fixed_size_list,
  map,
  duration,
  large_binary,
  large_utf8,
  large_list,
  run_end_encoded,
  binary_view,
  utf8_view,
  list_view,
  large_list_view,
  end
};

/// What the buffers of a type hold, after the bitmap of valid values.
enum class arrow_buffers : std::uint8_t {
  none,    ///< there are none, and no bitmap
  bits,    ///< a bit for each value
  values,  ///< the same number of bytes for each value
  bytes,   ///< offsets, then the bytes of all values
  views,   ///< 16 bytes for each value, which are its bytes or refer to one of several further buffers
  lists,   ///< offsets, or nothing if all lists have one size; the elements are a child
  parts,   ///< nothing; each part is a child
  indices, ///< the positions of the values in a dictionary
  unknown, ///< not supported
};

struct type_layout {
  arrow_type type;
  type_kind kind;
  std::string_view name;
  std::string_view parameters; ///< fields of its table: b for a bool, h and i for 16 and 32 bits, t for text
  arrow_buffers holds;
  std::uint8_t count;       ///< of buffers, with the bitmap, and without further ones of views
  std::uint8_t offset_size; ///< bytes of an offset; 0 if there are none
};

/// In the order of arrow_type, of which `other` has many.
inline constexpr std::array type_layouts{
    // clang-format off
    type_layout{arrow_type::null, type_kind::null, "null", "", arrow_buffers::none, 0, 0},
    type_layout{arrow_type::boolean, type_kind::boolean, "bool", "", arrow_buffers::bits, 2, 0},
    type_layout{arrow_type::integer, type_kind::integer, "int", "ib", arrow_buffers::values, 2, 0},
    type_layout{arrow_type::floating_point, type_kind::floating_point, "float", "h", arrow_buffers::values, 2, 0},
    type_layout{arrow_type::utf8, type_kind::utf8, "utf8", "", arrow_buffers::bytes, 3, 4},
    type_layout{arrow_type::large_utf8, type_kind::large_utf8, "large_utf8", "", arrow_buffers::bytes, 3, 8},
    type_layout{arrow_type::utf8_view, type_kind::utf8_view, "utf8_view", "", arrow_buffers::views, 2, 0},
    type_layout{arrow_type::binary, type_kind::binary, "binary", "", arrow_buffers::bytes, 3, 4},
    type_layout{arrow_type::large_binary, type_kind::large_binary, "large_binary", "", arrow_buffers::bytes, 3, 8},
    type_layout{arrow_type::binary_view, type_kind::binary_view, "binary_view", "", arrow_buffers::views, 2, 0},
    type_layout{arrow_type::fixed_size_binary, type_kind::fixed_size_binary, "fixed_size_binary", "i", arrow_buffers::values, 2, 0},
    type_layout{arrow_type::decimal, type_kind::decimal, "decimal", "iii", arrow_buffers::values, 2, 0},
    type_layout{arrow_type::date, type_kind::date, "date", "h", arrow_buffers::values, 2, 0},
    type_layout{arrow_type::time, type_kind::time, "time", "hi", arrow_buffers::values, 2, 0},
    type_layout{arrow_type::timestamp, type_kind::timestamp, "timestamp", "ht", arrow_buffers::values, 2, 0},
    type_layout{arrow_type::duration, type_kind::duration, "duration", "h", arrow_buffers::values, 2, 0},
    type_layout{arrow_type::list, type_kind::list, "list", "", arrow_buffers::lists, 2, 4},
    type_layout{arrow_type::large_list, type_kind::large_list, "large_list", "", arrow_buffers::lists, 2, 8},
    type_layout{arrow_type::fixed_size_list, type_kind::fixed_size_list, "fixed_size_list", "i", arrow_buffers::lists, 1, 0},
    type_layout{arrow_type::map, type_kind::map, "map", "", arrow_buffers::lists, 2, 4},
    type_layout{arrow_type::structure, type_kind::structure, "struct", "", arrow_buffers::parts, 1, 0},
    type_layout{arrow_type::dictionary, type_kind::none, "dictionary", "", arrow_buffers::indices, 2, 0},
    type_layout{arrow_type::other, type_kind::interval, "interval", "", arrow_buffers::unknown, 2, 0},
    type_layout{arrow_type::other, type_kind::union_of, "union", "h", arrow_buffers::unknown, 1, 0},
    type_layout{arrow_type::other, type_kind::run_end_encoded, "run_end_encoded", "", arrow_buffers::unknown, 0, 0},
    type_layout{arrow_type::other, type_kind::list_view, "list_view", "", arrow_buffers::unknown, 3, 0},
    type_layout{arrow_type::other, type_kind::large_list_view, "large_list_view", "", arrow_buffers::unknown, 3, 0},
    // clang-format on
};

constexpr const type_layout& layout_of(arrow_type type) noexcept {
  return type_layouts[static_cast<std::size_t>(type)];
}

/// Null for a kind that feedline doesn't know.
constexpr const type_layout* layout_of(type_kind kind) noexcept {
  for (const type_layout& layout : type_layouts)
    if (layout.kind == kind && kind != type_kind::none) return &layout;
  return nullptr;
}

constexpr bool has_layout(type_kind kind) noexcept {
  for (const type_layout& layout : type_layouts)
    if (layout.kind == kind) return true;
  return false;
}

static_assert(
    [] {
      for (std::size_t i = 0; i <= static_cast<std::size_t>(arrow_type::other); ++i)
        if (type_layouts[i].type != static_cast<arrow_type>(i)) return false;
      for (unsigned kind = 1; kind < static_cast<unsigned>(type_kind::end); ++kind)
        if (!has_layout(static_cast<type_kind>(kind))) return false;
      return true;
    }(),
    "the table has a row for each type and each kind");

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_ARROW)
namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::string_view arrow_type_name(arrow_type type) { return layout_of(type).name; }

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
