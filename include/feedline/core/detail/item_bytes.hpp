// SPDX-License-Identifier: MIT
#pragma once
// How much memory an item takes, as far as its type tells.
#include <array>
#include <cstddef>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <feedline/core/detail/fields.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/core/tensor.hpp>

namespace feedline::detail {

using known_bytes = std::optional<std::size_t>;

inline known_bytes sum_of(known_bytes a, known_bytes b) {
  std::size_t sum = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &sum)) return std::nullopt;
  return sum;
}

inline known_bytes product_of(std::size_t count, known_bytes bytes) {
  std::size_t product = 0;
  if (!bytes || __builtin_mul_overflow(count, *bytes, &product)) return std::nullopt;
  return product;
}

/// What an item of that type has beside itself.
template <class T>
struct bytes_beside {
  static known_bytes of() {
    if constexpr (std::is_trivially_copyable_v<T>) {
      return 0;
    } else if constexpr (requires { typename T::feedline_view; }) { // of what isn't its own
      return 0;
    } else if constexpr (has_fields<T>) {
      return [&]<class... Field>(std::type_identity<std::tuple<Field&...>>) {
        known_bytes sum = 0;
        ((sum = sum_of(sum, bytes_beside<Field>::of())), ...);
        return sum;
      }(std::type_identity<decltype(fields_of(std::declval<T&>()))>());
    } else {
      return std::nullopt;
    }
  }
};

template <class T, std::size_t N>
  requires(!std::is_trivially_copyable_v<T>)
struct bytes_beside<std::array<T, N>> {
  static known_bytes of() { return product_of(N, bytes_beside<T>::of()); }
};

template <class T, std::size_t... Extents>
  requires(sizeof...(Extents) > 0)
struct bytes_beside<tensor<T, Extents...>> {
  static known_bytes of() { return block_cache::bytes_for((sizeof(T) * ... * Extents)); }
};

template <class T>
known_bytes bytes_of_type() {
  return sum_of(sizeof(T), bytes_beside<T>::of());
}

/// What a value takes with all that belongs to it, as far as that can be seen.
template <class T>
std::size_t bytes_taken(const T& value) {
  if constexpr (requires {
                  value.capacity();
                  value.begin();
                }) { // a vector or a text
    std::size_t sum = sizeof(T) + (value.capacity() - value.size()) * sizeof(*value.begin());
    for (const auto& element : value) sum += bytes_taken(element);
    return sum;
  } else if constexpr (requires {
                         value.shape();
                         value.data();
                       }) { // a tensor
    return sizeof(T) + block_cache::bytes_for(value.size() * sizeof(*value.data()));
  } else if constexpr (!std::is_trivially_copyable_v<T> && has_fields<T>) {
    return std::apply([](const auto&... field) { return (std::size_t{0} + ... + bytes_taken(field)); },
                      fields_of(value));
  } else {
    return sizeof(T);
  }
}

/// What each item that a stage gives takes, where each of those that it gets takes `in`.
template <class In, class Stage>
known_bytes bytes_given(const Stage& stage, known_bytes in) {
  using out = stage_output_t<Stage, In>;
  if constexpr (requires { stage.template bytes_given<In>(in); }) return stage.template bytes_given<In>(in);
  else if constexpr (std::is_same_v<out, In>) return in;
  else return bytes_of_type<out>();
}

/// How many items a stage holds, of those that it gets.
template <class Stage>
std::size_t items_held(const Stage& stage) {
  if constexpr (requires { stage.items_held(); }) return stage.items_held();
  else return 0;
}

/// How many items it holds half made, of those that it gives, beside the one at the end of its segment.
template <class Stage>
std::size_t items_begun(const Stage& stage) {
  if constexpr (requires { stage.items_begun(); }) return stage.items_begun();
  else return 0;
}

} // namespace feedline::detail
