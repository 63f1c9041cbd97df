// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/detail/value_text.hpp>

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
