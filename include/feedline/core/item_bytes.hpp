// SPDX-License-Identifier: MIT
#pragma once
// How much memory an item takes, as far as its type tells.
#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/memory_plan.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/core/tensor.hpp>
#include <feedline/detail/fields.hpp>

namespace feedline::inline v0::detail {

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

/// What a tensor of a batch takes for so many bytes of elements.
inline known_bytes bytes_of_column(known_bytes elements) {
  if (!elements) return elements;
  return block_cache::bytes_for(std::max(block_cache::smallest, *elements));
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

/// A vector or a text.
template <class T>
concept has_capacity = requires(const T& value) {
  typename T::value_type;
  value.capacity();
  value.begin();
};

/// Whether a value's elements lie in its own object, as those of short strings do.
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

/// What a value takes with all that belongs to it, as far as that can be seen.
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

/// Whether bytes_taken() sees all that a value takes. `Around`: the types that it lies in.
template <class T, class... Around>
consteval bool shows_bytes() {
  if constexpr ((std::is_same_v<T, Around> || ...)) return true; // as far as this part of it goes
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

[[noreturn, gnu::cold]] inline void throw_too_large(std::size_t taken, largest_item limit) {
  throw std::length_error("its item takes " + bytes_text(taken) + ", more than the largest_item{" +
                          std::to_string(limit.bytes) + "} that was announced");
}

/// Throws std::length_error if a value takes more than was announced, if anything was.
template <class T>
[[gnu::always_inline]] inline void check_largest(const T& value, largest_item limit) {
  if (limit.bytes == 0) [[likely]]
    return;
  if (const std::size_t taken = bytes_taken(value); taken > limit.bytes) throw_too_large(taken, limit);
}

/// Whether a value may have tensors, whose memory is rounded up by block_cache. `Around`: the types that it lies in.
template <class T, class... Around>
consteval bool may_have_tensors() {
  if constexpr ((std::is_same_v<T, Around> || ...)) return false; // as far as this part of it goes
  else if constexpr (is_tensor<T>) return true;
  else if constexpr (std::is_trivially_copyable_v<T> || requires { typename T::feedline_view; }) return false;
  else if constexpr (has_capacity<T>) return may_have_tensors<typename T::value_type, T, Around...>();
  else if constexpr (has_fields<T>)
    return []<class... Field>(std::type_identity<std::tuple<Field&...>>) {
      return (may_have_tensors<std::remove_const_t<Field>, T, Around...>() || ...);
    }(std::type_identity<decltype(fields_of(std::declval<T&>()))>());
  else return true;
}

/// What a user's own source or stage says of its items is what they hold, and not how it is rounded.
template <class T>
known_bytes announced_bytes(known_bytes bytes) {
  return may_have_tensors<T>() && bytes ? sum_of(bytes, *bytes / 8) : bytes;
}

/// One of the library's own: of others only what core/stage.hpp names is asked.
template <class Stage>
concept part_of_library = requires { typename Stage::feedline_part; };

/// What no sample of a source takes more than.
template <source Source>
known_bytes largest_item_of(const Source& source) {
  // A view takes no memory of its own, unless its source says how much: then the view owns what it shows.
  if constexpr (!requires {
                  typename source_item_t<Source>::feedline_view;
                  source.largest_item();
                })
    if (const known_bytes known = bytes_of_type<source_item_t<Source>>()) return known;
  if constexpr (requires { source.largest_item(); }) return source.largest_item();
  else return std::nullopt;
}

/// What each item that a stage gives takes, where each of those that it gets takes `in`.
template <class In, class Stage>
known_bytes bytes_given(const Stage& stage, known_bytes in) {
  using out = stage_output_t<Stage, In>;
  if constexpr (requires { stage.template bytes_given<In>(in); }) return stage.template bytes_given<In>(in);
  else if constexpr (requires(known_bytes most) { most = stage.largest_item(); })
    return announced_bytes<out>(stage.largest_item());
  else if constexpr (std::is_same_v<out, In>) return in;
  else return bytes_of_type<out>();
}

/// How many items a stage holds, of those that it gets.
template <class Stage>
std::size_t items_held(const Stage& stage) {
  if constexpr (requires { stage.items_held(); }) return stage.items_held();
  else return 0;
}

/// What a stage keeps beside those items, in bytes. Nothing: it is the user's own and doesn't say what it holds,
/// of which it may have any amount: only what lies in an object without a destructor is there to be seen.
template <class In, class Stage>
known_bytes bytes_kept(const Stage& stage) {
  if constexpr (requires { stage.bytes_kept(); }) return stage.bytes_kept();
  else if constexpr (part_of_library<Stage> || requires { stage.items_held(); }) return 0;
  else if constexpr (stateless<Stage>) return 0;
  else if constexpr (std::is_trivially_copyable_v<bound_t<Stage, In>>) return sizeof(bound_t<Stage, In>);
  else return std::nullopt;
}

/// How many items it holds half made, of those that it gives, beside the one at the end of its segment.
template <class Stage>
std::size_t items_begun(const Stage& stage) {
  if constexpr (requires { stage.items_begun(); }) return stage.items_begun();
  else return 0;
}

} // namespace feedline::inline v0::detail
