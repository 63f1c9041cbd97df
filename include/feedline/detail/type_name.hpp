// SPDX-License-Identifier: MIT
#pragma once
// Names of types, for messages and checkpoints. They are the same header-only and compiled.
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <typeinfo>

#include <feedline/version.hpp>

#define FEEDLINE_TEXT_OF_MACRO(name) #name
#define FEEDLINE_TEXT_OF(macro) FEEDLINE_TEXT_OF_MACRO(macro)

namespace feedline::inline FEEDLINE_ABI::detail {

/// The inline namespace in which everything is.
inline constexpr std::string_view abi_name = FEEDLINE_TEXT_OF(FEEDLINE_ABI);

/// The type's name as the compiler writes it, without the inline namespace, ended by a zero.
template <class T>
consteval auto spelled() {
  constexpr std::string_view whole = __PRETTY_FUNCTION__; // "… [with T = name]" or "… [T = name]"
  constexpr std::size_t begin = whole.find("T = ") + 4;
  std::array<char, whole.size() - begin> name{};
  std::string_view rest = whole.substr(begin, name.size() - 1);
  for (std::size_t at = 0; !rest.empty(); rest.remove_prefix(1)) {
    if (rest.front() == abi_name.front() && rest.starts_with(abi_name) &&
        rest.substr(abi_name.size()).starts_with("::"))
      rest.remove_prefix(abi_name.size() + 2);
    name[at++] = rest.front();
  }
  return name;
}

template <class T>
inline constexpr auto type_name = spelled<T>();

/// The type's mangled name without the inline namespace. It also tells lambdas apart.
std::string mangled_name(const std::type_info& type);

} // namespace feedline::inline FEEDLINE_ABI::detail

#undef FEEDLINE_TEXT_OF
#undef FEEDLINE_TEXT_OF_MACRO

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_DETAIL)
namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::string mangled_name(const std::type_info& type) {
  const std::string abi = std::to_string(abi_name.size()) + std::string(abi_name);
  std::string name = type.name();
  for (std::size_t at = 0; (at = name.find(abi, at)) != std::string::npos;) name.erase(at, abi.size());
  return name;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
