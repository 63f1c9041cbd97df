// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/detail/type_name.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::string mangled_name(const std::type_info& type) {
  const std::string abi = std::to_string(abi_name.size()) + std::string(abi_name);
  std::string name = type.name();
  for (std::size_t at = 0; (at = name.find(abi, at)) != std::string::npos;) name.erase(at, abi.size());
  return name;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
