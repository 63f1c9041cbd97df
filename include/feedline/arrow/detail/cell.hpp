// SPDX-License-Identifier: MIT
#pragma once
// The C++ types that each column type can be read as, and how.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/arrow/arrow_error.hpp>
#include <feedline/arrow/detail/array.hpp>
#include <feedline/arrow/detail/byte_limit.hpp>
#include <feedline/arrow/detail/decimal.hpp>
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
/// `read(place)`: the value at a position that value_at() returned; `read(place, limit)` if the value owns memory, which is
/// taken from the limit. `wanted()`: the name of the type, for messages.
template <class T>
struct arrow_cell {};

/// Whether values of columns can be read as a T.
template <class T>
concept arrow_readable = requires { arrow_cell<T>::read; };

/// Reads a value, whose memory is taken from the limit.
template <class T>
T read_within(arrow_place place, byte_limit& limit) {
  if constexpr (requires { arrow_cell<T>::read(place, limit); }) return arrow_cell<T>::read(place, limit);
  else return arrow_cell<T>::read(place);
}

inline void refuse_null(arrow_place place) {
  if (!place.array) throw arrow_error("the value is null, but the field isn't a std::optional");
}

template <class T>
concept arrow_integer = std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char> &&
                        !std::is_same_v<T, wchar_t> && !std::is_same_v<T, char8_t> &&
                        !std::is_same_v<T, char16_t> && !std::is_same_v<T, char32_t>;

template <class T>
concept arrow_float = std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, float16>;

template <class T>
concept arrow_number = arrow_integer<T> || arrow_float<T>;

/// "int32", "float64".
template <class T>
std::string arrow_number_name() {
  const std::string bits = std::to_string(8 * sizeof(T));
  if constexpr (arrow_float<T>) return "float" + bits;
  else return (std::is_signed_v<T> ? "int" : "uint") + bits;
}

/// Whether the values are stored as Ts.
template <class T>
bool is_stored_as(const arrow_field& field) noexcept {
  if (field.bits != 8 * sizeof(T)) return false;
  if constexpr (arrow_float<T>) return field.type == arrow_type::floating_point;
  else return has_integers(field) && field.is_signed == std::is_signed_v<T>;
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

/// The bytes of a decimal.
inline std::span<const std::byte> decimal_at(arrow_place place) {
  const std::size_t size = place.array->field->bits / 8;
  return place.array->values.subspan(static_cast<std::size_t>(place.at) * size, size);
}

/// The number of bits that a number needs, without its sign.
inline unsigned digits_of(const arrow_field& field) noexcept {
  return field.bits - (field.is_signed ? 1 : 0);
}

template <arrow_number T>
struct arrow_cell<T> {
  static std::string wanted() {
    if constexpr (std::is_same_v<T, float16>) return "float16";
    else if constexpr (std::is_same_v<T, double>) return "a decimal or a number that float64 holds exactly";
    else return "a number that " + arrow_number_name<T>() + " holds exactly";
  }

  static bool accepts(const arrow_field& field) {
    if constexpr (std::is_same_v<T, float16>) {
      return is_stored_as<T>(field);
    } else if constexpr (arrow_float<T>) {
      if (std::is_same_v<T, double> && field.type == arrow_type::decimal) return true;
      if (field.type == arrow_type::floating_point) return field.bits <= 8 * sizeof(T);
      return field.type == arrow_type::integer &&
             digits_of(field) <= static_cast<unsigned>(std::numeric_limits<T>::digits);
    } else {
      return has_integers(field) && (std::is_signed_v<T> || !field.is_signed) &&
             digits_of(field) <= static_cast<unsigned>(std::numeric_limits<T>::digits);
    }
  }

  static T read(arrow_place place) {
    refuse_null(place);
    const arrow_array& a = *place.array;
    if constexpr (!std::is_same_v<T, float16>)
      if (!is_stored_as<T>(*a.field)) {
        if constexpr (std::is_same_v<T, double>)
          if (a.field->type == arrow_type::decimal)
            return decimal_as_double(decimal_at(place), a.field->scale);
        return with_number(a, place.at, [](auto number) { return static_cast<T>(number); });
      }
    return a.number<T>(place.at);
  }
};

template <>
struct arrow_cell<bool> {
  static std::string wanted() { return "bool"; }

  static bool accepts(const arrow_field& field) { return field.type == arrow_type::boolean; }

  static bool read(arrow_place place) {
    refuse_null(place);
    return arrow_array::bit(place.array->values, place.at);
  }
};

inline bool is_text(const arrow_field& field) noexcept {
  return field.type >= arrow_type::utf8 && field.type <= arrow_type::utf8_view;
}

template <>
struct arrow_cell<std::string_view> {
  static std::string wanted() { return "text (utf8)"; }

  static bool accepts(const arrow_field& field) { return is_text(field); }

  static std::string_view read(arrow_place place) {
    refuse_null(place);
    const auto bytes = place.array->bytes(place.at);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

template <>
struct arrow_cell<std::string> {
  static std::string wanted() { return "text (utf8) or a decimal"; }

  static bool accepts(const arrow_field& field) {
    return is_text(field) || field.type == arrow_type::decimal;
  }

  static std::string read(arrow_place place, byte_limit& limit) {
    refuse_null(place);
    const arrow_field& field = *place.array->field;
    if (field.type == arrow_type::decimal) return decimal_text(decimal_at(place), field.scale);
    const std::string_view text = arrow_cell<std::string_view>::read(place);
    limit.take(text.size());
    return std::string(text);
  }
};

template <>
struct arrow_cell<std::span<const std::byte>> {
  static std::string wanted() { return "bytes (binary or utf8)"; }

  static bool accepts(const arrow_field& field) {
    return field.type >= arrow_type::utf8 && field.type <= arrow_type::fixed_size_binary;
  }

  static std::span<const std::byte> read(arrow_place place) {
    refuse_null(place);
    return place.array->bytes(place.at);
  }
};

template <std::size_t Size>
struct arrow_cell<std::array<std::byte, Size>> {
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

/// Whether a period of time is a whole number of ticks of Period, and how many: 0 if not.
template <class Period>
constexpr std::int64_t ticks_of(arrow_unit unit) noexcept {
  constexpr std::int64_t per_second[]{1, 1, 1'000, 1'000'000, 1'000'000'000};
  const std::int64_t seconds = unit == arrow_unit::day ? 86'400 : 1;
  const std::int64_t ticks = seconds * Period::den;
  const std::int64_t divisor = per_second[static_cast<std::size_t>(unit)] * Period::num;
  return ticks % divisor == 0 ? ticks / divisor : 0;
}

template <class Duration>
struct is_arrow_duration : std::false_type {};

// Larger ratios could overflow in ticks_of().
template <class Rep, class Period>
struct is_arrow_duration<std::chrono::duration<Rep, Period>>
    : std::bool_constant<arrow_integer<Rep> && Period::num <= 1'000'000'000 && Period::den <= 1'000'000'000> {
};

/// Reads a count of a unit of time as a std::chrono::duration. Throws arrow_error if it is too large for it.
template <class Duration>
Duration read_duration(arrow_place place) {
  refuse_null(place);
  const std::int64_t count = arrow_cell<std::int64_t>::read(place);
  const arrow_unit unit = place.array->field->unit;
  typename Duration::rep ticks = 0;
  if (__builtin_mul_overflow(count, ticks_of<typename Duration::period>(unit), &ticks))
    throw arrow_error(std::to_string(count) + ' ' + std::string(unit_name(unit)) +
                      " is too large for the field's std::chrono type");
  return Duration(ticks);
}

template <class Rep, class Period>
  requires(is_arrow_duration<std::chrono::duration<Rep, Period>>::value)
struct arrow_cell<std::chrono::duration<Rep, Period>> {
  static std::string wanted() {
    return "a time of the day or a duration, in whole ticks of the field's type";
  }

  static bool accepts(const arrow_field& field) {
    return (field.type == arrow_type::time || field.type == arrow_type::duration) &&
           ticks_of<Period>(field.unit) > 0;
  }

  static constexpr auto read = read_duration<std::chrono::duration<Rep, Period>>;
};

/// std::chrono::sys_time for dates and timestamps of UTC, std::chrono::local_time for dates and timestamps without
/// a timezone.
template <class Clock, class Duration>
  requires(is_arrow_duration<Duration>::value &&
           (std::is_same_v<Clock, std::chrono::system_clock> || std::is_same_v<Clock, std::chrono::local_t>))
struct arrow_cell<std::chrono::time_point<Clock, Duration>> {
  static constexpr bool is_local = std::is_same_v<Clock, std::chrono::local_t>;

  static std::string wanted() {
    return std::string("a date or a timestamp with") + (is_local ? "out" : "") +
           " a timezone, in whole ticks of the field's type";
  }

  static bool accepts(const arrow_field& field) {
    const bool is_of_clock = field.type == arrow_type::timestamp && field.timezone.empty() == is_local;
    return (field.type == arrow_type::date || is_of_clock) &&
           ticks_of<typename Duration::period>(field.unit) > 0;
  }

  static std::chrono::time_point<Clock, Duration> read(arrow_place place) {
    return std::chrono::time_point<Clock, Duration>(read_duration<Duration>(place));
  }
};

inline bool is_list(const arrow_field& field) noexcept {
  return field.type >= arrow_type::list && field.type <= arrow_type::map;
}

/// Elements aren't converted, so that the span can be a view of them.
template <arrow_number T>
struct arrow_cell<std::span<const T>> {
  static std::string wanted() { return "list<" + arrow_number_name<T>() + ">"; }

  static bool accepts(const arrow_field& field) {
    return is_list(field) && is_stored_as<T>(field.children.front());
  }

  static std::span<const T> read(arrow_place place) {
    refuse_null(place);
    const arrow_array& list = *place.array;
    const arrow_array& element = list.children.front();
    const auto [begin, end] = list.elements(place.at);
    if (!element.valid.empty())
      for (std::uint64_t i = begin; i < end; ++i)
        if (!arrow_array::bit(element.valid, i))
          throw arrow_error(
              "element " + std::to_string(i - begin) +
              " of the list is null, which a number can't hold; use a std::vector of std::optional");
    const auto* const numbers = reinterpret_cast<const T*>(element.values.data());
    return {numbers + begin, numbers + end};
  }
};

/// Calls f with the position of each element's value in a list.
template <class F>
void for_each_element(arrow_place place, F f) {
  const arrow_array& element = place.array->children.front();
  const auto [begin, end] = place.array->elements(place.at);
  for (std::uint64_t i = begin; i < end; ++i) {
    try {
      f(value_at({&element, i}));
    } catch (const arrow_error& error) {
      throw arrow_error("element " + std::to_string(i - begin) + " of the list: " + error.what());
    }
  }
}

/// Room for the elements of a list, which is taken from the limit.
template <class T>
std::vector<T> room_for_elements(arrow_place place, byte_limit& limit) {
  refuse_null(place);
  const auto [begin, end] = place.array->elements(place.at);
  limit.take(end - begin, sizeof(T));
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(end - begin));
  return values;
}

/// Whether the elements of a list can be read as T.
template <class T>
bool has_elements(const arrow_field& field) {
  return is_list(field) && arrow_cell<T>::accepts(value_field(field.children.front()));
}

template <arrow_readable T>
struct arrow_cell<std::vector<T>> {
  static std::string wanted() { return "a list, with each element " + arrow_cell<T>::wanted(); }

  static bool accepts(const arrow_field& field) { return has_elements<T>(field); }

  static std::vector<T> read(arrow_place place, byte_limit& limit) {
    auto values = room_for_elements<T>(place, limit);
    if constexpr (arrow_number<T>)
      if (arrow_cell<std::span<const T>>::accepts(*place.array->field)) {
        const auto all = arrow_cell<std::span<const T>>::read(place);
        values.assign(all.begin(), all.end());
        return values;
      }
    for_each_element(place, [&](arrow_place element) { values.push_back(read_within<T>(element, limit)); });
    return values;
  }
};

/// A map.
template <arrow_readable Key, arrow_readable Value>
struct arrow_cell<std::vector<std::pair<Key, Value>>> {
  static std::string wanted() {
    return "a map, with each key " + arrow_cell<Key>::wanted() + ", and each value " +
           arrow_cell<Value>::wanted();
  }

  static bool accepts(const arrow_field& field) {
    if (field.type != arrow_type::map) return false;
    const std::vector<arrow_field>& parts = field.children.front().children;
    return arrow_cell<Key>::accepts(value_field(parts[0])) &&
           arrow_cell<Value>::accepts(value_field(parts[1]));
  }

  static std::vector<std::pair<Key, Value>> read(arrow_place place, byte_limit& limit) {
    auto values = room_for_elements<std::pair<Key, Value>>(place, limit);
    for_each_element(place, [&](arrow_place element) {
      refuse_null(element);
      const std::vector<arrow_array>& parts = element.array->children;
      values.emplace_back(read_within<Key>(value_at({&parts[0], element.at}), limit),
                          read_within<Value>(value_at({&parts[1], element.at}), limit));
    });
    return values;
  }
};

template <arrow_readable T, std::size_t Size>
struct arrow_cell<std::array<T, Size>> {
  static std::string wanted() {
    return "a fixed_size_list of " + std::to_string(Size) + " elements, each " + arrow_cell<T>::wanted();
  }

  static bool accepts(const arrow_field& field) {
    return field.type == arrow_type::fixed_size_list && field.elements == Size && has_elements<T>(field);
  }

  static std::array<T, Size> read(arrow_place place, byte_limit& limit) {
    refuse_null(place);
    std::array<T, Size> values{};
    if constexpr (arrow_number<T>)
      if (arrow_cell<std::span<const T>>::accepts(*place.array->field)) {
        const auto all = arrow_cell<std::span<const T>>::read(place);
        std::copy(all.begin(), all.end(), values.begin());
        return values;
      }
    std::size_t i = 0;
    for_each_element(place, [&](arrow_place element) { values[i++] = read_within<T>(element, limit); });
    return values;
  }
};

template <arrow_readable T>
struct arrow_cell<std::optional<T>> {
  static std::string wanted() { return arrow_cell<T>::wanted() + ", or null"; }

  static bool accepts(const arrow_field& field) {
    return field.type == arrow_type::null || arrow_cell<T>::accepts(field);
  }

  static std::optional<T> read(arrow_place place, byte_limit& limit) {
    if (!place.array) return std::nullopt;
    return read_within<T>(place, limit);
  }
};

} // namespace feedline::inline FEEDLINE_ABI::detail
