// SPDX-License-Identifier: MIT
#pragma once
// Names of types, for messages.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The type's name as the compiler writes it, ended by a zero.
template <class T>
consteval auto spelled() {
  constexpr std::string_view whole = __PRETTY_FUNCTION__; // "… [with T = name]" or "… [T = name]"
  constexpr std::size_t begin = whole.find("T = ") + 4;
  std::array<char, whole.size() - begin> name{};
  std::copy(whole.begin() + begin, whole.end() - 1, name.begin());
  return name;
}

template <class T>
inline constexpr auto type_name = spelled<T>();

} // namespace feedline::inline FEEDLINE_ABI::detail
