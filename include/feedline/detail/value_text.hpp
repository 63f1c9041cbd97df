// SPDX-License-Identifier: MIT
#pragma once
// Values as text, bounded in length: for messages, and to print tensors and batches.
#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include <feedline/detail/fields.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

template <class T>
concept text_like =
    !std::is_array_v<T> && !std::is_pointer_v<T> && std::convertible_to<const T&, std::string_view>;

template <class T>
concept range_like = !text_like<T> && requires(const T& list) {
  list.begin() != list.end();
  *list.begin();
};

/// The shortest text that identifies the number.
std::string number_text(long long number);
std::string number_text(unsigned long long number);
std::string number_text(float number);
std::string number_text(double number);
std::string number_text(long double number);

/// In double quotes, shortened if it is long.
std::string quoted_text(std::string_view text);

/// "{x: 1, y: 2}", without names "(1, 2)".
std::string fields_text(std::span<const std::string> values, std::span<const std::string_view> names);

/// A value as text. Of a long list it shows the first elements.
template <class T>
std::string value_text(const T& value) {
  constexpr std::size_t limit = 8;
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_enum_v<T>) {
    return value_text(static_cast<std::underlying_type_t<T>>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    return number_text(value);
  } else if constexpr (std::is_integral_v<T>) {
    return number_text(
        static_cast<std::conditional_t<std::is_signed_v<T>, long long, unsigned long long>>(value));
  } else if constexpr (text_like<T>) {
    return quoted_text(value);
  } else if constexpr (requires {
                         { to_string(value) } -> std::same_as<std::string>;
                       }) {
    return to_string(value);
  } else if constexpr (requires {
                         { value.string() } -> std::same_as<std::string>;
                       }) {
    return quoted_text(value.string()); // a path, which is a range of paths
  } else if constexpr (range_like<T>) {
    std::string text;
    std::size_t count = 0;
    for (const auto& element : value) {
      if (count == limit) return "[" + text + ", …]";
      text += (count++ == 0 ? "" : ", ") + value_text<std::remove_cvref_t<decltype(element)>>(element);
    }
    return "[" + text + "]";
  } else if constexpr (requires {
                         value.has_value();
                         *value;
                       }) {
    return value.has_value() ? value_text(*value) : "nothing";
  } else if constexpr (has_fields<T>) {
    const auto names = names_of_fields<T>();
    return std::apply(
        [&](const auto&... field) {
          return fields_text(std::array<std::string, sizeof...(field)>{value_text(field)...}, names);
        },
        fields_of(value));
  } else if constexpr (requires { static_cast<float>(value); }) {
    return number_text(static_cast<float>(value));
  } else {
    return "another item";
  }
}

/// The elements of an array of several dimensions in nested brackets; of a large one the first and last of each dimension.
/// `text_of` makes that of the element with a number.
std::string array_text(std::span<const std::size_t> extents, const void* elements,
                       std::string (*text_of)(const void* elements, std::size_t number));

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_DETAIL)
#include <charconv>

#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

template <class Number>
std::string shortest_text(Number number) {
  std::array<char, 64> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

FEEDLINE_INLINE std::string number_text(long long number) { return shortest_text(number); }

FEEDLINE_INLINE std::string number_text(unsigned long long number) { return shortest_text(number); }

FEEDLINE_INLINE std::string number_text(float number) { return shortest_text(number); }

FEEDLINE_INLINE std::string number_text(double number) { return shortest_text(number); }

FEEDLINE_INLINE std::string number_text(long double number) { return shortest_text(number); }

FEEDLINE_INLINE std::string quoted_text(std::string_view text) {
  constexpr std::size_t limit = 40;
  return "\"" + std::string(beginning_of(text, limit)) + (text.size() > limit ? "…\"" : "\"");
}

FEEDLINE_INLINE std::string fields_text(std::span<const std::string> values,
                                        std::span<const std::string_view> names) {
  const bool named = names.size() == values.size() && !names.empty();
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += ", ";
    if (named) text.append(names[i]).append(": ");
    text += values[i];
  }
  return named ? "{" + text + "}" : "(" + text + ")";
}

struct array_printer {
  std::span<const std::size_t> extents;
  const void* elements;
  std::string (*text_of)(const void*, std::size_t);
  bool is_large;
  std::size_t number = 0; // of the next element
  std::string text{};

  void print(std::size_t dimension) {
    if (dimension == extents.size()) {
      text += text_of(elements, number++);
      return;
    }
    std::size_t of_one = 1;
    for (const std::size_t extent : extents.subspan(dimension + 1)) of_one *= extent;
    const std::size_t extent = extents[dimension], shown = extents.size() - dimension <= 2 ? 3 : 1;
    text += "[";
    for (std::size_t i = 0; i < extent; ++i) {
      if (i > 0) text += ", ";
      if (is_large && i == shown && extent > 2 * shown) {
        text += "…, ";
        number += (extent - 2 * shown) * of_one;
        i = extent - shown;
      }
      print(dimension + 1);
    }
    text += "]";
  }
};

FEEDLINE_INLINE std::string array_text(std::span<const std::size_t> extents, const void* elements,
                                       std::string (*text_of)(const void*, std::size_t)) {
  std::size_t count = 1;
  for (const std::size_t extent : extents) count *= extent;
  array_printer printer{extents, elements, text_of, count == 0 || count > 64};
  printer.print(0);
  return std::move(printer.text);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
