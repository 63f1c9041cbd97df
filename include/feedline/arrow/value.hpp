// SPDX-License-Identifier: MIT
#pragma once
// A value of a column whose type isn't known at compile time.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <feedline/arrow/arrow_error.hpp>
#include <feedline/arrow/detail/array.hpp>
#include <feedline/arrow/detail/byte_limit.hpp>
#include <feedline/arrow/detail/cell.hpp>
#include <feedline/arrow/schema.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// A value of any type, including lists and structs: a field of arrow_rows for columns that no plain type can
/// hold. It is a view of its record batch, which the row keeps.
class arrow_value {
 public:
  arrow_value() = default;

  /// Rows call it. `max_bytes`: see arrow_options::max_row_bytes.
  arrow_value(detail::arrow_place place, std::uint64_t max_bytes)
      : place_(detail::value_at(place)), max_bytes_(max_bytes) {}

  /// Whether there is no value, also because the value's struct is null.
  bool is_null() const noexcept { return !place_.array; }

  /// The value's type; for a dictionary that of its values; `null` if there is no value.
  arrow_type type() const noexcept { return is_null() ? arrow_type::null : field()->type; }

  /// The value's type with its parts; null if there is no value.
  const arrow_field* field() const noexcept { return is_null() ? nullptr : place_.array->field; }

  /// The value as one of the types of arrow_rows' fields. Throws arrow_error if it is null (unless T is an
  /// optional), of another type, or larger than arrow_options::max_row_bytes.
  template <class T>
  T as() const {
    static_assert(detail::arrow_readable<T>, "feedline: no column of an Arrow file can be read as a `T`");
    if (!is_null() && !detail::arrow_cell<T>::accepts(*field()))
      throw arrow_error("the value is of type " + to_string(*field()) + ", not " +
                        detail::arrow_cell<T>::wanted());
    detail::byte_limit limit = detail::row_limit(max_bytes_);
    return detail::read_within<T>(place_, limit);
  }

  /// The number of elements of a list or a map, or of parts of a struct; 0 for other types.
  std::size_t size() const;

  /// Element i of a list or a map (a struct of a key and a value), or part i of a struct. Throws arrow_error if i >= size().
  arrow_value operator[](std::size_t i) const;

 private:
  detail::arrow_place place_;
  std::uint64_t max_bytes_ = 0;
};

namespace detail {

/// Checks all that a value shows, so that what is wrong with it is an error of its row. Of lists, what their elements take once they
/// are copied counts towards the limit: lists may share elements, or have elements of no size.
void look_through(const arrow_value& value, byte_limit& limit, bool is_element = false);

template <>
struct arrow_cell<arrow_value> {
  static std::string wanted() { return "a supported type"; }

  static bool accepts(const arrow_field& field) { return is_readable(field); }

  static arrow_value read(arrow_place place, const byte_limit& limit) {
    return place.array ? arrow_value(place, limit.most()) : arrow_value();
  }
};

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_ARROW)
namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE void detail::look_through(const arrow_value& value, byte_limit& limit, bool is_element) {
  switch (value.type()) {
  case arrow_type::structure:
    for (std::size_t i = 0; i < value.size(); ++i) look_through(value[i], limit, is_element);
    return;
  case arrow_type::list:
  case arrow_type::large_list:
  case arrow_type::fixed_size_list:
  case arrow_type::map: {
    const arrow_type of = value.field()->children.front().type;
    const std::size_t size = value.size();
    if (of == arrow_type::integer || of == arrow_type::floating_point) {
      if (is_element) limit.take(size, sizeof(std::uint64_t));
      return;
    }
    limit.take(size, sizeof(void*));
    for (std::size_t i = 0; i < size; ++i) look_through(value[i], limit, true);
    return;
  }
  case arrow_type::utf8:
  case arrow_type::large_utf8:
  case arrow_type::utf8_view:
  case arrow_type::binary:
  case arrow_type::large_binary:
  case arrow_type::binary_view: {
    const std::size_t size = value.as<std::span<const std::byte>>().size();
    if (is_element) limit.take(size);
    return;
  }
  default:
    return;
  }
}

FEEDLINE_INLINE std::size_t arrow_value::size() const {
  if (is_null()) return 0;
  if (type() == arrow_type::structure) return place_.array->children.size();
  if (!detail::is_list(*field())) return 0;
  const auto [begin, end] = place_.array->elements(place_.at);
  return static_cast<std::size_t>(end - begin);
}

FEEDLINE_INLINE arrow_value arrow_value::operator[](std::size_t i) const {
  if (i >= size())
    throw arrow_error("there is no element " + std::to_string(i) + "; the value has " +
                      std::to_string(size()));
  if (type() == arrow_type::structure)
    return arrow_value({&place_.array->children[i], place_.at}, max_bytes_);
  return arrow_value({&place_.array->children.front(), place_.array->elements(place_.at).first + i},
                     max_bytes_);
}

} // namespace feedline::inline FEEDLINE_ABI
#endif
