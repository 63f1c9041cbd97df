// SPDX-License-Identifier: MIT
#pragma once
// Hashes the meaning of a value: the result is the same in every process, whatever the pointers and the
// padding.
#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <tuple>
#include <type_traits>

#include <feedline/core/half.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/tensor.hpp>
#include <feedline/detail/fields.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

template <class T>
concept hashed_as_text = !std::is_array_v<T> && std::convertible_to<const T&, std::string_view>;

template <class T>
concept hashed_as_list = requires(const T& value) {
  std::size(value);
  std::begin(value)[0];
};

std::uint64_t hash_of_number(long double value) noexcept;

/// The hash of a value; 0 for pointers, except those to text, and for classes whose members aren't accessible.
/// For a long list it uses the size and the first elements.
template <class T>
std::uint64_t value_hash(const T& value) {
  constexpr std::size_t looked_at = 256; // elements
  if constexpr (std::is_enum_v<T>) {
    return value_hash(static_cast<std::underlying_type_t<T>>(value));
  } else if constexpr (std::is_same_v<T, long double>) {
    return hash_of_number(value);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    return stable_hash({reinterpret_cast<const char*>(&value), sizeof value});
  } else if constexpr (hashed_as_text<T>) {
    if constexpr (std::is_pointer_v<T>)
      if (!value) return key(0);
    return stable_hash(std::string_view(value));
  } else if constexpr (is_tensor<T>) {
    std::uint64_t hash = key(value.size());
    for (const std::size_t extent : value.shape()) hash = key(hash, extent);
    for (std::size_t i = 0; i < std::min(value.size(), looked_at); ++i)
      hash = key(hash, value_hash(value[i]));
    return hash;
  } else if constexpr (hashed_as_list<T>) {
    const std::size_t size = std::size(value);
    std::uint64_t hash = key(size);
    auto at = std::begin(value);
    for (std::size_t i = 0; i < std::min(size, looked_at); ++i, ++at)
      hash = key(hash, value_hash<std::iter_value_t<decltype(at)>>(*at));
    return hash;
  } else if constexpr (has_fields<T>) {
    std::uint64_t hash = 0;
    std::apply([&](const auto&... field) { ((hash = key(hash, value_hash(field))), ...); }, fields_of(value));
    return hash;
  } else {
    return 0;
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <bit>
#include <cmath>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::uint64_t hash_of_number(long double value) noexcept {
  if (std::isnan(value)) return key(1);
  if (std::isinf(value)) return key(value < 0 ? 2 : 3);
  int exponent = 0;
  const long double fraction = std::frexp(value, &exponent);
  const auto high = static_cast<double>(fraction);
  const auto low = static_cast<double>(fraction - static_cast<long double>(high));
  return key(std::bit_cast<std::uint64_t>(high), std::bit_cast<std::uint64_t>(low),
             static_cast<std::uint64_t>(exponent));
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
