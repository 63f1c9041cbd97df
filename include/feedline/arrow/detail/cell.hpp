// SPDX-License-Identifier: MIT
#pragma once
// The C++ types that each column type can be read as, and how.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <feedline/arrow/arrow_error.hpp>
#include <feedline/arrow/detail/array.hpp>
#include <feedline/arrow/schema.hpp>
#include <feedline/core/half.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Whether the type and all of its parts can be read.
inline bool is_readable(const arrow_field& field) {
  if (field.type == arrow_type::other) return false;
  for (const arrow_field& child : field.children)
    if (!is_readable(child)) return false;
  return true;
}

/// Reads a value of a column as a T. `accepts(field)`: whether a column of that type can be read as a T.
/// `read(place)`: the value at a position that value_at() returned. `wanted()`: the name of the type, for
/// messages.
template <class T>
struct arrow_cell {
  static constexpr bool exists = false;
};

inline void refuse_null(arrow_place place) {
  if (!place.array) throw arrow_error("the value is null, but the field isn't a std::optional");
}

template <class T>
concept arrow_integer = std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char> &&
                        !std::is_same_v<T, wchar_t> && !std::is_same_v<T, char8_t> &&
                        !std::is_same_v<T, char16_t> && !std::is_same_v<T, char32_t>;

template <class T>
concept arrow_float = std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, float16>;

/// "int32", "float64".
template <class T>
std::string arrow_number_name() {
  const std::string bits = std::to_string(8 * sizeof(T));
  if constexpr (arrow_float<T>) return "float" + bits;
  else return (std::is_signed_v<T> ? "int" : "uint") + bits;
}

/// Calls f with a number of the array's type.
template <class F>
auto with_number(const arrow_array& a, std::uint64_t at, F f) {
  if (a.field->type == arrow_type::floating_point) {
    if (a.field->bits == 16) return f(static_cast<float>(a.number<float16>(at)));
    return a.field->bits == 32 ? f(a.number<float>(at)) : f(a.number<double>(at));
  }
  const bool is_signed = a.field->is_signed;
  switch (a.field->bits) {
  case 8:
    return is_signed ? f(a.number<std::int8_t>(at)) : f(a.number<std::uint8_t>(at));
  case 16:
    return is_signed ? f(a.number<std::int16_t>(at)) : f(a.number<std::uint16_t>(at));
  case 32:
    return is_signed ? f(a.number<std::int32_t>(at)) : f(a.number<std::uint32_t>(at));
  default:
    return is_signed ? f(a.number<std::int64_t>(at)) : f(a.number<std::uint64_t>(at));
  }
}

/// The number of bits that a number needs, without its sign.
inline unsigned digits_of(const arrow_field& field) noexcept {
  return field.bits - (field.is_signed ? 1 : 0);
}

template <class T>
  requires(arrow_integer<T> || arrow_float<T>)
struct arrow_cell<T> {
  static constexpr bool exists = true;

  static std::string wanted() {
    if constexpr (std::is_same_v<T, float16>) return "float16";
    else return "a number that " + arrow_number_name<T>() + " holds exactly";
  }

  static bool accepts(const arrow_field& field) {
    if constexpr (std::is_same_v<T, float16>) {
      return field.type == arrow_type::floating_point && field.bits == 16;
    } else if constexpr (arrow_float<T>) {
      if (field.type == arrow_type::floating_point) return field.bits <= 8 * sizeof(T);
      return field.type == arrow_type::integer &&
             digits_of(field) <= static_cast<unsigned>(std::numeric_limits<T>::digits);
    } else {
      return field.type == arrow_type::integer && (std::is_signed_v<T> || !field.is_signed) &&
             digits_of(field) <= static_cast<unsigned>(std::numeric_limits<T>::digits);
    }
  }

  static T read(arrow_place place) {
    refuse_null(place);
    if constexpr (std::is_same_v<T, float16>) return place.array->number<float16>(place.at);
    else return with_number(*place.array, place.at, [](auto number) { return static_cast<T>(number); });
  }
};

template <>
struct arrow_cell<bool> {
  static constexpr bool exists = true;

  static std::string wanted() { return "bool"; }

  static bool accepts(const arrow_field& field) { return field.type == arrow_type::boolean; }

  static bool read(arrow_place place) {
    refuse_null(place);
    return arrow_array::bit(place.array->values, place.at);
  }
};

inline bool is_text(const arrow_field& field) noexcept {
  return field.type == arrow_type::utf8 || field.type == arrow_type::large_utf8;
}

template <>
struct arrow_cell<std::string_view> {
  static constexpr bool exists = true;

  static std::string wanted() { return "text (utf8)"; }

  static bool accepts(const arrow_field& field) { return is_text(field); }

  static std::string_view read(arrow_place place) {
    refuse_null(place);
    const auto bytes = place.array->bytes(place.at);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

template <>
struct arrow_cell<std::string> : arrow_cell<std::string_view> {
  static std::string read(arrow_place place) {
    return std::string(arrow_cell<std::string_view>::read(place));
  }
};

template <>
struct arrow_cell<std::span<const std::byte>> {
  static constexpr bool exists = true;

  static std::string wanted() { return "bytes (binary or utf8)"; }

  static bool accepts(const arrow_field& field) {
    return is_text(field) || field.type == arrow_type::binary || field.type == arrow_type::large_binary ||
           field.type == arrow_type::fixed_size_binary;
  }

  static std::span<const std::byte> read(arrow_place place) {
    refuse_null(place);
    return place.array->bytes(place.at);
  }
};

template <std::size_t Size>
struct arrow_cell<std::array<std::byte, Size>> {
  static constexpr bool exists = true;

  static std::string wanted() { return "fixed_size_binary<" + std::to_string(Size) + ">"; }

  static bool accepts(const arrow_field& field) {
    return field.type == arrow_type::fixed_size_binary && field.bytes == Size;
  }

  static std::array<std::byte, Size> read(arrow_place place) {
    refuse_null(place);
    std::array<std::byte, Size> value;
    if constexpr (Size > 0) std::memcpy(value.data(), place.array->bytes(place.at).data(), Size);
    return value;
  }
};

/// Elements aren't converted, so that the span can be a view of them.
template <class T>
  requires(arrow_integer<T> || arrow_float<T>)
struct arrow_cell<std::span<const T>> {
  static constexpr bool exists = true;

  static std::string wanted() { return "list<" + arrow_number_name<T>() + ">"; }

  static bool accepts(const arrow_field& field) {
    if (field.type != arrow_type::list && field.type != arrow_type::large_list) return false;
    const arrow_field& element = field.children.front();
    if (element.bits != 8 * sizeof(T)) return false;
    if constexpr (arrow_float<T>) return element.type == arrow_type::floating_point;
    else return element.type == arrow_type::integer && element.is_signed == std::is_signed_v<T>;
  }

  static std::span<const T> read(arrow_place place) {
    refuse_null(place);
    const arrow_array& list = *place.array;
    const arrow_array& element = list.children.front();
    const auto [begin, end] = list.elements(place.at);
    if (!element.valid.empty())
      for (std::uint64_t i = begin; i < end; ++i)
        if (!arrow_array::bit(element.valid, i))
          throw arrow_error("element " + std::to_string(i - begin) +
                            " of the list is null, which a std::span of numbers can't hold; use arrow_value");
    const auto* const numbers = reinterpret_cast<const T*>(element.values.data());
    return {numbers + begin, numbers + end};
  }
};

template <class T>
  requires(arrow_cell<T>::exists)
struct arrow_cell<std::optional<T>> {
  static constexpr bool exists = true;

  static std::string wanted() { return arrow_cell<T>::wanted() + ", or null"; }

  static bool accepts(const arrow_field& field) {
    return field.type == arrow_type::null || arrow_cell<T>::accepts(field);
  }

  static std::optional<T> read(arrow_place place) {
    if (!place.array) return std::nullopt;
    return arrow_cell<T>::read(place);
  }
};

} // namespace feedline::inline FEEDLINE_ABI::detail
