// SPDX-License-Identifier: MIT
#pragma once
// The number of rounds of randomized tests.
#include <algorithm>
#include <concepts>
#include <type_traits>

#include "sanitizers.hpp"

namespace feedline::test {

/// Returns `number`, or under a sanitizer, which makes each round many times slower, an eighth of it but at least `least`.
template <std::integral Number>
constexpr Number rounds(Number number, std::type_identity_t<Number> least = 3) noexcept {
  return is_sanitized ? std::max(number / 8, std::min(number, least)) : number;
}

/// The distance between the places of a run that a test tries: all, or under a sanitizer each fourth.
inline constexpr int place_step = is_sanitized ? 4 : 1;

} // namespace feedline::test
