// SPDX-License-Identifier: MIT
#pragma once
// The fields of a plain struct, a pair or a tuple, found at compile time: no macro, no registration.
#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

struct any_field {
  template <class T>
  operator T() const noexcept;
};

template <class T, std::size_t... I>
consteval bool can_be_made_of(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), any_field{})...}; };
}

inline constexpr std::size_t most_fields = 12;

/// Whether T can be made from N pairs of empty braces followed by values of the given types. Each pair of
/// braces initializes one field, also an array.
template <class T, std::size_t N, class... Behind>
consteval bool takes_braces() {
  // clang-format off
  if constexpr (N == 0) return requires { T{Behind()...}; };
  else if constexpr (N == 1) return requires { T{{}, Behind()...}; };
  else if constexpr (N == 2) return requires { T{{}, {}, Behind()...}; };
  else if constexpr (N == 3) return requires { T{{}, {}, {}, Behind()...}; };
  else if constexpr (N == 4) return requires { T{{}, {}, {}, {}, Behind()...}; };
  else if constexpr (N == 5) return requires { T{{}, {}, {}, {}, {}, Behind()...}; };
  else if constexpr (N == 6) return requires { T{{}, {}, {}, {}, {}, {}, Behind()...}; };
  else if constexpr (N == 7) return requires { T{{}, {}, {}, {}, {}, {}, {}, Behind()...}; };
  else if constexpr (N == 8) return requires { T{{}, {}, {}, {}, {}, {}, {}, {}, Behind()...}; };
  else if constexpr (N == 9) return requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}, Behind()...}; };
  else if constexpr (N == 10) return requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, Behind()...}; };
  else if constexpr (N == 11) return requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, Behind()...}; };
  else if constexpr (N == 12) return requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, Behind()...}; };
  else return requires { T{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, Behind()...}; };
  // clang-format on
}

template <class T, std::size_t N = 0>
consteval std::size_t count_by_braces() {
  if constexpr (N > most_fields) return N;
  else if constexpr (takes_braces<T, N + 1>()) return count_by_braces<T, N + 1>();
  else return N;
}

template <class T, std::size_t N = 0>
consteval std::size_t count_by_values() {
  if constexpr (N <= most_fields && can_be_made_of<T>(std::make_index_sequence<N + 1>()))
    return count_by_values<T, N + 1>();
  else return N;
}

/// The number of fields of an aggregate; most_fields + 1 stands for any higher number.
template <class T>
consteval std::size_t count_fields() {
  constexpr std::size_t count = count_by_braces<T>();
  // Braces can't initialize a field without a default constructor; values count each array element.
  if constexpr (count > most_fields) return count;
  else if constexpr (takes_braces<T, count, any_field>()) return count_by_values<T>();
  else return count;
}

template <class T>
concept tuple_like = requires { std::tuple_size<T>::value; };

template <class T>
concept plain_struct = std::is_class_v<T> && std::is_aggregate_v<T> && !tuple_like<T>;

template <class T>
inline constexpr bool has_fields = tuple_like<T>;
template <plain_struct T>
inline constexpr bool has_fields<T> = count_fields<T>() <= most_fields;

/// The fields as a tuple of references.
template <class T>
constexpr auto fields_of(T& value) {
  using plain = std::remove_cv_t<T>;
  if constexpr (tuple_like<plain>) {
    return std::apply([](auto&... f) { return std::tie(f...); }, value);
  } else {
    constexpr std::size_t n = count_fields<plain>();
    // clang-format off
    if constexpr (n == 0) { return std::tuple<>(); }
    else if constexpr (n == 1) { auto& [a] = value; return std::tie(a); }
    else if constexpr (n == 2) { auto& [a, b] = value; return std::tie(a, b); }
    else if constexpr (n == 3) { auto& [a, b, c] = value; return std::tie(a, b, c); }
    else if constexpr (n == 4) { auto& [a, b, c, d] = value; return std::tie(a, b, c, d); }
    else if constexpr (n == 5) { auto& [a, b, c, d, e] = value; return std::tie(a, b, c, d, e); }
    else if constexpr (n == 6) { auto& [a, b, c, d, e, f] = value; return std::tie(a, b, c, d, e, f); }
    else if constexpr (n == 7) { auto& [a, b, c, d, e, f, g] = value; return std::tie(a, b, c, d, e, f, g); }
    else if constexpr (n == 8) { auto& [a, b, c, d, e, f, g, h] = value; return std::tie(a, b, c, d, e, f, g, h); }
    else if constexpr (n == 9) { auto& [a, b, c, d, e, f, g, h, i] = value; return std::tie(a, b, c, d, e, f, g, h, i); }
    else if constexpr (n == 10) { auto& [a, b, c, d, e, f, g, h, i, j] = value; return std::tie(a, b, c, d, e, f, g, h, i, j); }
    else if constexpr (n == 11) { auto& [a, b, c, d, e, f, g, h, i, j, k] = value; return std::tie(a, b, c, d, e, f, g, h, i, j, k); }
    else { auto& [a, b, c, d, e, f, g, h, i, j, k, l] = value; return std::tie(a, b, c, d, e, f, g, h, i, j, k, l); }
    // clang-format on
  }
}

// An object that is never constructed: the compiler only compares the addresses of its fields.
template <class T>
union never_made {
  constexpr never_made() : none() {}

  constexpr ~never_made() {}

  char none;
  T value;
};

template <class T>
inline never_made<T> address_book;

/// Stands for a field in a compiler's message.
template <class Field>
struct address {
  Field* of;
};

template <std::size_t Number>
struct place_in_tuple {};

/// Identifies field number I of T in a compiler's message, by its name if it has one.
template <class T, std::size_t I>
consteval auto name_of_field() {
  if constexpr (plain_struct<T>) {
    auto& field = std::get<I>(fields_of(address_book<T>.value));
    return address<std::remove_reference_t<decltype(field)>>{&field};
  } else {
    return place_in_tuple<I>();
  }
}

/// The identifier at the end of what the compiler writes for Name, a name_of_field().
template <auto Name>
consteval auto last_identifier() {
  std::string_view text = __PRETTY_FUNCTION__;
  const auto belongs = [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  while (!belongs(text.back())) text.remove_suffix(1);
  std::size_t begin = text.size();
  while (belongs(text[begin - 1])) --begin;
  return text.substr(begin);
}

/// The names of a struct's fields, in order; empty for pairs and tuples.
template <class T>
consteval auto names_of_fields() {
  if constexpr (plain_struct<T>)
    return []<std::size_t... I>(std::index_sequence<I...>) {
      return std::array<std::string_view, sizeof...(I)>{last_identifier<name_of_field<T, I>()>()...};
    }(std::make_index_sequence<count_fields<T>()>());
  else return std::array<std::string_view, 0>{};
}

template <class M>
struct member_pointer;

template <class Class, class Type>
struct member_pointer<Type Class::*> {
  using class_type = Class;
};

/// Whether Member is a pointer to a data member of T.
template <class T, auto Member>
inline constexpr bool names_field = false;
template <class T, auto Member>
  requires std::is_member_object_pointer_v<decltype(Member)>
inline constexpr bool names_field<T, Member> =
    std::is_same_v<typename member_pointer<decltype(Member)>::class_type, T>;

/// The number of the field that a member pointer names.
template <auto Member>
consteval std::size_t field_index() {
  using plain = typename member_pointer<decltype(Member)>::class_type;
  std::size_t index = 0, found = 0;
  std::apply(
      [&](auto&... field) {
        const auto look = [&](const void* address) {
          if (address == static_cast<const void*>(&(address_book<plain>.value.*Member))) found = index;
          ++index;
        };
        (look(&field), ...);
      },
      fields_of(address_book<plain>.value));
  return found;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
