// SPDX-License-Identifier: MIT
#pragma once
// How much memory an item takes, as far as its type determines it.
#include <array>
#include <cstddef>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/memory_plan.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/core/tensor.hpp>
#include <feedline/detail/block_cache.hpp>
#include <feedline/detail/fields.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

using known_bytes = std::optional<std::size_t>;

known_bytes sum_of(known_bytes a, known_bytes b);

known_bytes product_of(std::size_t count, known_bytes bytes);

/// The memory of a batch's tensor with elements of that many bytes in total.
known_bytes bytes_of_column(known_bytes elements);

/// The bytes that an item of that type owns outside its object.
template <class T>
struct bytes_beside {
  static known_bytes of() {
    if constexpr (std::is_trivially_copyable_v<T>) {
      return 0;
    } else if constexpr (requires { typename T::feedline_view; }) { // it owns nothing
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

template <class T, std::size_t N>
  requires(!std::is_trivially_copyable_v<T>)
struct bytes_beside<T[N]> : bytes_beside<std::array<T, N>> {};

template <class T, std::size_t... Extents>
  requires(sizeof...(Extents) > 0)
struct bytes_beside<tensor<T, Extents...>> {
  static known_bytes of() { return block_cache::bytes_for((sizeof(T) * ... * Extents)); }
};

template <class T>
known_bytes bytes_of_type() {
  return sum_of(sizeof(T), bytes_beside<T>::of());
}

/// A vector or a string.
template <class T>
concept has_capacity = requires(const T& value) {
  typename T::value_type;
  value.capacity();
  value.begin();
};

/// Whether a value's elements are inside its object, as those of short strings are.
template <class T>
bool lies_inside(const T& value) noexcept {
  if constexpr (requires { value.data(); }) {
    const auto* const elements = reinterpret_cast<const std::byte*>(value.data());
    const auto* const object = reinterpret_cast<const std::byte*>(&value);
    return elements >= object && elements < object + sizeof(T);
  } else {
    return false;
  }
}

/// The bytes that a value takes with everything it owns, as far as that is visible.
template <class T>
std::size_t bytes_taken(const T& value) {
  if constexpr (has_capacity<T>) {
    using element = typename T::value_type;
    if constexpr (std::is_same_v<T, std::vector<bool>>) {
      return sizeof(T) + value.capacity() / 8;
    } else if constexpr (std::is_trivially_copyable_v<element>) {
      return sizeof(T) + (lies_inside(value) ? 0 : value.capacity() * sizeof(element));
    } else {
      std::size_t sum = sizeof(T) + (value.capacity() - value.size()) * sizeof(element);
      for (const element& e : value) sum += bytes_taken(e);
      return sum;
    }
  } else if constexpr (std::is_array_v<T> && !std::is_trivially_copyable_v<T>) {
    std::size_t sum = 0;
    for (const auto& element : value) sum += bytes_taken(element);
    return sum;
  } else if constexpr (is_tensor<T>) {
    return sizeof(T) + block_cache::bytes_for(value.size() * sizeof(*value.data()));
  } else if constexpr (!std::is_trivially_copyable_v<T> && has_fields<T>) {
    return std::apply(
        [](const auto&... field) { return (sizeof(T) + ... + (bytes_taken(field) - sizeof(field))); },
        fields_of(value));
  } else {
    return sizeof(T);
  }
}

/// Whether bytes_taken() sees all memory of a value. `Around`: the types that contain it.
template <class T, class... Around>
consteval bool shows_bytes() {
  if constexpr ((std::is_same_v<T, Around> || ...)) return true; // a recursive type: its other members decide
  else if constexpr (std::is_trivially_copyable_v<T> || is_tensor<T>) return true;
  else if constexpr (requires { typename T::feedline_view; }) return true;
  else if constexpr (std::is_array_v<T>) return shows_bytes<std::remove_extent_t<T>, T, Around...>();
  else if constexpr (has_capacity<T>) return shows_bytes<typename T::value_type, T, Around...>();
  else if constexpr (has_fields<T>)
    return []<class... Field>(std::type_identity<std::tuple<Field&...>>) {
      return (shows_bytes<std::remove_const_t<Field>, T, Around...>() && ...);
    }(std::type_identity<decltype(fields_of(std::declval<T&>()))>());
  else return false;
}

[[noreturn, gnu::cold]] void throw_too_large(std::size_t taken, max_item_bytes limit);

/// Throws std::length_error if a value takes more than its declared limit, if there is one.
template <class T>
[[gnu::always_inline]] inline void check_largest(const T& value, max_item_bytes limit) {
  if (limit.bytes == 0) [[likely]]
    return;
  if (const std::size_t taken = bytes_taken(value); taken > limit.bytes) throw_too_large(taken, limit);
}

/// Whether a value may contain tensors, whose memory block_cache rounds up. `Around`: the types that contain
/// it.
template <class T, class... Around>
consteval bool may_have_tensors() {
  if constexpr ((std::is_same_v<T, Around> || ...))
    return false; // a recursive type: its other members decide
  else if constexpr (is_tensor<T>) return true;
  else if constexpr (std::is_trivially_copyable_v<T> || requires { typename T::feedline_view; }) return false;
  else if constexpr (has_capacity<T>) return may_have_tensors<typename T::value_type, T, Around...>();
  else if constexpr (has_fields<T>)
    return []<class... Field>(std::type_identity<std::tuple<Field&...>>) {
      return (may_have_tensors<std::remove_const_t<Field>, T, Around...>() || ...);
    }(std::type_identity<decltype(fields_of(std::declval<T&>()))>());
  else return true;
}

/// Adds room for this rounding to the bytes that a user's source or stage declares.
template <class T>
known_bytes announced_bytes(known_bytes bytes) {
  return may_have_tensors<T>() && bytes ? sum_of(bytes, *bytes / 8) : bytes;
}

/// A part of the library.
template <class Stage>
concept part_of_library = requires { typename Stage::feedline_part; };

/// The most bytes that a sample of a source takes.
template <source Source>
known_bytes max_item_bytes_of(const Source& source) {
  // A view owns no memory, unless its source declares max_item_bytes(): then the view owns the data it shows.
  if constexpr (!requires {
                  typename source_item_t<Source>::feedline_view;
                  source.max_item_bytes();
                })
    if (const known_bytes known = bytes_of_type<source_item_t<Source>>()) return known;
  if constexpr (requires { source.max_item_bytes(); }) return source.max_item_bytes();
  else return std::nullopt;
}

/// The most bytes that a source keeps in addition to samples.
template <source Source>
std::size_t bytes_held_by(const Source& source) {
  if constexpr (requires { source.bytes_held(); }) return source.bytes_held();
  else return 0;
}

/// The bytes of each item that a stage emits, if each item that it receives takes `in`.
template <class In, class Stage>
known_bytes bytes_given(const Stage& stage, known_bytes in) {
  using out = stage_output_t<Stage, In>;
  if constexpr (requires { stage.template bytes_given<In>(in); }) return stage.template bytes_given<In>(in);
  else if constexpr (requires(known_bytes most) { most = stage.max_item_bytes(); })
    return announced_bytes<out>(stage.max_item_bytes());
  else if constexpr (std::is_same_v<out, In>) return in;
  else return bytes_of_type<out>();
}

/// The most input items that a stage holds.
template <class Stage>
std::size_t items_held(const Stage& stage) {
  if constexpr (requires { stage.items_held(); }) return stage.items_held();
  else return 0;
}

/// The bytes that a stage keeps in addition to those items. Nothing if unknown: a user's stage that doesn't
/// declare its memory may own any amount, unless it is trivially copyable.
template <class In, class Stage>
known_bytes bytes_held(const Stage& stage) {
  if constexpr (requires { stage.bytes_held(); }) return stage.bytes_held();
  else if constexpr (part_of_library<Stage> || requires { stage.items_held(); }) return 0;
  else if constexpr (stateless<Stage>) return 0;
  else if constexpr (std::is_trivially_copyable_v<bound_t<Stage, In>>) return sizeof(bound_t<Stage, In>);
  else return std::nullopt;
}

/// How many unfinished output items it holds, in addition to the one at the end of its segment.
template <class In, class Stage>
std::size_t items_begun(const Stage& stage) {
  if constexpr (requires { stage.template items_begun<In>(); }) return stage.template items_begun<In>();
  else if constexpr (requires { stage.items_begun(); }) return stage.items_begun();
  else return 0;
}

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <algorithm>
#include <stdexcept>
#include <string>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE known_bytes sum_of(known_bytes a, known_bytes b) {
  std::size_t sum = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &sum)) return std::nullopt;
  return sum;
}

FEEDLINE_INLINE known_bytes product_of(std::size_t count, known_bytes bytes) {
  std::size_t product = 0;
  if (!bytes || __builtin_mul_overflow(count, *bytes, &product)) return std::nullopt;
  return product;
}

FEEDLINE_INLINE known_bytes bytes_of_column(known_bytes elements) {
  if (!elements) return elements;
  return block_cache::bytes_for(std::max(block_cache::smallest, *elements));
}

FEEDLINE_INLINE void throw_too_large(std::size_t taken, max_item_bytes limit) {
  throw std::length_error("the item takes " + bytes_text(taken) + ", more than the max_item_bytes{" +
                          std::to_string(limit.bytes) + "} declared for it");
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
