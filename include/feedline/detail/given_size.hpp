// SPDX-License-Identifier: MIT
#pragma once
// Checks sizes that users pass. A negative number that was converted to an unsigned type is refused, and shown
// as the negative number. No valid size is that large, as memory can't hold it.
#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

template <std::unsigned_integral Size>
constexpr bool was_negative(Size size) noexcept {
  return static_cast<std::make_signed_t<Size>>(size) < 0;
}

std::string size_text(std::int64_t size);

/// The number as text; "-1" for the largest value of the type.
template <std::unsigned_integral Size>
std::string size_text(Size size) {
  return size_text(std::int64_t{static_cast<std::make_signed_t<Size>>(size)});
}

[[noreturn]] void throw_negative(std::int64_t size, const char* what);

/// Throws std::invalid_argument for a size that was negative. `what` is for example "feedline::take: the number
/// of items".
template <std::unsigned_integral Size>
void refuse_negative(Size size, const char* what) {
  if (was_negative(size)) throw_negative(static_cast<std::make_signed_t<Size>>(size), what);
}

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_DETAIL)
#include <stdexcept>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::string size_text(std::int64_t size) { return std::to_string(size); }

FEEDLINE_INLINE void throw_negative(std::int64_t size, const char* what) {
  throw std::invalid_argument(std::string(what) + " is " + size_text(size) + ", but can't be negative");
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif
