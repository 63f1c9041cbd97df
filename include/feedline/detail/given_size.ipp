// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/detail/given_size.hpp>

#include <stdexcept>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::string size_text(std::int64_t size) { return std::to_string(size); }

FEEDLINE_INLINE void throw_negative(std::int64_t size, const char* what) {
  throw std::invalid_argument(std::string(what) + " is " + size_text(size) + ", but can't be negative");
}

} // namespace feedline::inline FEEDLINE_ABI::detail
