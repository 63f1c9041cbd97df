// SPDX-License-Identifier: MIT
#pragma once
// The fields of a plain struct, a pair or a tuple, found at compile time: no macro, no registration. A class that has a
// constructor returns them from a function fields().
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

inline constexpr std::size_t most_fields = 64;

// FEEDLINE_CASES(n, use, item) continues an `if constexpr`: for a constant n from 1 to most_fields it calls the macro `use`
// with n items, each made by the macro `item(block, number)`: full blocks of eight, and the rest.
// clang-format off
#define FEEDLINE_FIRST_1(item) item(z, 0)
#define FEEDLINE_FIRST_2(item) FEEDLINE_FIRST_1(item), item(z, 1)
#define FEEDLINE_FIRST_3(item) FEEDLINE_FIRST_2(item), item(z, 2)
#define FEEDLINE_FIRST_4(item) FEEDLINE_FIRST_3(item), item(z, 3)
#define FEEDLINE_FIRST_5(item) FEEDLINE_FIRST_4(item), item(z, 4)
#define FEEDLINE_FIRST_6(item) FEEDLINE_FIRST_5(item), item(z, 5)
#define FEEDLINE_FIRST_7(item) FEEDLINE_FIRST_6(item), item(z, 6)
#define FEEDLINE_FIRST_8(item) FEEDLINE_FIRST_7(item), item(z, 7)
#define FEEDLINE_BLOCK(item, b) \
  item(b, 0), item(b, 1), item(b, 2), item(b, 3), item(b, 4), item(b, 5), item(b, 6), item(b, 7),
#define FEEDLINE_EIGHT_CASES(n, full, use, item, ...)                                      \
  else if constexpr (n <= full + 8) {                                                      \
    if constexpr (n == full + 1) { use(__VA_ARGS__ FEEDLINE_FIRST_1(item)) }               \
    else if constexpr (n == full + 2) { use(__VA_ARGS__ FEEDLINE_FIRST_2(item)) }          \
    else if constexpr (n == full + 3) { use(__VA_ARGS__ FEEDLINE_FIRST_3(item)) }          \
    else if constexpr (n == full + 4) { use(__VA_ARGS__ FEEDLINE_FIRST_4(item)) }          \
    else if constexpr (n == full + 5) { use(__VA_ARGS__ FEEDLINE_FIRST_5(item)) }          \
    else if constexpr (n == full + 6) { use(__VA_ARGS__ FEEDLINE_FIRST_6(item)) }          \
    else if constexpr (n == full + 7) { use(__VA_ARGS__ FEEDLINE_FIRST_7(item)) }          \
    else { use(__VA_ARGS__ FEEDLINE_FIRST_8(item)) }                                       \
  }
#define FEEDLINE_CASES(n, use, item)                                                                             \
  FEEDLINE_EIGHT_CASES(n, 0, use, item, )                                                                        \
  FEEDLINE_EIGHT_CASES(n, 8, use, item, FEEDLINE_BLOCK(item, a))                                                 \
  FEEDLINE_EIGHT_CASES(n, 16, use, item, FEEDLINE_BLOCK(item, a) FEEDLINE_BLOCK(item, b))                        \
  FEEDLINE_EIGHT_CASES(n, 24, use, item, FEEDLINE_BLOCK(item, a) FEEDLINE_BLOCK(item, b) FEEDLINE_BLOCK(item, c)) \
  FEEDLINE_EIGHT_CASES(n, 32, use, item, FEEDLINE_BLOCK(item, a) FEEDLINE_BLOCK(item, b) FEEDLINE_BLOCK(item, c) \
    FEEDLINE_BLOCK(item, d))                                                                                     \
  FEEDLINE_EIGHT_CASES(n, 40, use, item, FEEDLINE_BLOCK(item, a) FEEDLINE_BLOCK(item, b) FEEDLINE_BLOCK(item, c) \
    FEEDLINE_BLOCK(item, d) FEEDLINE_BLOCK(item, e))                                                             \
  FEEDLINE_EIGHT_CASES(n, 48, use, item, FEEDLINE_BLOCK(item, a) FEEDLINE_BLOCK(item, b) FEEDLINE_BLOCK(item, c) \
    FEEDLINE_BLOCK(item, d) FEEDLINE_BLOCK(item, e) FEEDLINE_BLOCK(item, f))                                     \
  FEEDLINE_EIGHT_CASES(n, 56, use, item, FEEDLINE_BLOCK(item, a) FEEDLINE_BLOCK(item, b) FEEDLINE_BLOCK(item, c) \
    FEEDLINE_BLOCK(item, d) FEEDLINE_BLOCK(item, e) FEEDLINE_BLOCK(item, f) FEEDLINE_BLOCK(item, g))
#define FEEDLINE_BRACES(block, number) {}
#define FEEDLINE_TAKES(...) return requires { T{__VA_ARGS__, Behind()...}; };
#define FEEDLINE_NAME(block, number) block##number
#define FEEDLINE_TIE(...) auto& [__VA_ARGS__] = value; return std::tie(__VA_ARGS__);

// clang-format on

/// Whether T can be made from N pairs of empty braces followed by values of the given types. Each pair of
/// braces initializes one field, also an array.
template <class T, std::size_t N, class... Behind>
consteval bool takes_braces() {
  if constexpr (N == 0) return requires { T{Behind()...}; };
  FEEDLINE_CASES(N, FEEDLINE_TAKES, FEEDLINE_BRACES)
}

/// The most pairs of braces that T can be made from: at least Low and less than High.
template <class T, std::size_t Low = 0, std::size_t High = most_fields + 1>
consteval std::size_t count_by_braces() {
  constexpr std::size_t next = 2 * Low + 1, half = (Low + High) / 2,
                        middle = next < half ? next : half; // few are likely
  if constexpr (Low + 1 == High) return Low;
  else if constexpr (takes_braces<T, middle>()) return count_by_braces<T, middle, High>();
  else return count_by_braces<T, Low, middle>();
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
  if constexpr (!takes_braces<T, count, any_field>()) return count;
  else if constexpr (count == most_fields) return count + 1;
  else return count_by_values<T>();
}

template <class T>
concept tuple_like = requires { std::tuple_size<T>::value; };

template <class T>
inline constexpr bool are_references = false;
template <class... T>
inline constexpr bool are_references<std::tuple<T&...>> = (!std::is_const_v<T> && ...);

/// A class whose function `auto fields()` returns references to what it has: `std::tie(a_, b_)`.
template <class T>
concept lists_fields = requires(T& value) {
  value.fields();
  requires are_references<decltype(value.fields())>;
};

template <class T>
struct any_base {
  template <class Base>
    requires(std::is_base_of_v<Base, T> && !std::is_same_v<Base, T>)
  operator Base() const noexcept;
};

/// Whether an aggregate has a base class: its members and that of the base can't be bound together.
template <class T>
concept has_base =
    requires { T{any_base<T>()}; } && !requires { T{any_base<void>()}; }; // a field may accept anything

template <class T>
concept plain_struct =
    std::is_class_v<T> && std::is_aggregate_v<T> && !tuple_like<T> && !lists_fields<T> && !has_base<T>;

template <class T>
inline constexpr bool has_fields = tuple_like<T> || lists_fields<T>;
template <plain_struct T>
inline constexpr bool has_fields<T> = count_fields<T>() <= most_fields;

/// The fields as a tuple of references.
template <class T>
constexpr auto fields_of(T& value) {
  using plain = std::remove_cv_t<T>;
  if constexpr (tuple_like<plain>) {
    return std::apply([](auto&... f) { return std::tie(f...); }, value);
  } else if constexpr (lists_fields<T>) {
    return value.fields();
  } else if constexpr (lists_fields<
                           plain>) { // fields() of a class isn't const: stages write to what it returns
    return std::apply([](auto&... f) { return std::tie(std::as_const(f)...); },
                      const_cast<plain&>(value).fields());
  } else {
    constexpr std::size_t n = count_fields<plain>();
    if constexpr (n == 0) return std::tuple<>();
    FEEDLINE_CASES(n, FEEDLINE_TIE, FEEDLINE_NAME)
  }
}

#undef FEEDLINE_TIE
#undef FEEDLINE_NAME
#undef FEEDLINE_TAKES
#undef FEEDLINE_BRACES
#undef FEEDLINE_CASES
#undef FEEDLINE_EIGHT_CASES
#undef FEEDLINE_BLOCK
#undef FEEDLINE_FIRST_8
#undef FEEDLINE_FIRST_7
#undef FEEDLINE_FIRST_6
#undef FEEDLINE_FIRST_5
#undef FEEDLINE_FIRST_4
#undef FEEDLINE_FIRST_3
#undef FEEDLINE_FIRST_2
#undef FEEDLINE_FIRST_1

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
  requires(std::is_member_object_pointer_v<decltype(Member)> && !lists_fields<T>)
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
