// SPDX-License-Identifier: MIT
#pragma once
// The types that the state of a source or a stage can have.
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>

#include <feedline/core/half.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/snapshot/held.hpp>

namespace feedline::inline FEEDLINE_ABI {

class state_writer;
class state_reader;

namespace detail {

/// A value that fits into a word.
template <class T>
concept word_like = (std::integral<T> || std::is_enum_v<T>)&&sizeof(T) <= sizeof(std::uint64_t);

template <class T>
concept state_float =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, long double> ||
    std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

/// A source, stage or other class with a state, which may be part of another one's.
template <class T>
concept has_state = requires(T& part, state_writer& writer, state_reader& reader) {
  part.state(writer);
  part.state(reader);
};

template <class T>
inline constexpr bool is_state_optional = false;
template <class T>
inline constexpr bool is_state_optional<std::optional<T>> = true;

/// std::pair and std::tuple.
template <class T>
inline constexpr bool is_state_tuple = false;
template <class... T>
inline constexpr bool is_state_tuple<std::tuple<T...>> = true;
template <class First, class Second>
inline constexpr bool is_state_tuple<std::pair<First, Second>> = true;

template <class T>
inline constexpr bool is_state_sample = std::is_same_v<T, sample_id>;
template <class T>
inline constexpr bool is_state_sample<sample<T>> = true;

/// The members of a sample or of its identity.
template <class T>
auto members_of_sample(T& s) {
  if constexpr (requires { s.value; }) return std::tie(s.value, s.id);
  else return std::tie(s.index, s.sub_index, s.epoch, s.repetition);
}

template <class T>
inline constexpr bool is_state_array = std::is_array_v<T>;
template <class T, std::size_t Size>
inline constexpr bool is_state_array<std::array<T, Size>> = true;

/// A string, std::vector, std::deque or std::list: it owns its elements and grows at its end.
template <class T>
concept state_list =
    std::default_initializable<typename T::value_type> && requires(T& list, typename T::value_type value) {
      list.clear();
      list.push_back(std::move(value));
      { std::as_const(list).size() } -> std::convertible_to<std::size_t>;
      list.begin();
    };

/// How many elements of such a list share a word: text and bools are packed.
template <class Element>
inline constexpr std::size_t elements_in_word = std::is_same_v<Element, bool>                  ? 64
                                                : word_like<Element> && (sizeof(Element) == 1) ? 8
                                                                                               : 1;

template <class T>
constexpr std::size_t words_of_float = sizeof(T) <= sizeof(std::uint64_t) ? 1 : 2;

[[noreturn]] inline void throw_state_not_whole() {
  throw std::invalid_argument("feedline: the checkpoint is incomplete or damaged");
}

template <class T>
consteval bool can_be_state() {
  return word_like<T> || state_float<T> || has_state<T> || is_state_optional<T> || is_state_tuple<T> ||
         is_state_sample<T> || is_state_array<T> || state_list<T> || holds_samples<T>;
}

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI
