// SPDX-License-Identifier: MIT
#pragma once
// Replaces Catch2's string matchers, whose names differ between versions.
#include <string_view>

namespace feedline::test {

/// Whether `call` throws an Error whose message contains `part`.
template <class Error, class Call>
bool throws_saying(std::string_view part, Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string_view(error.what()).find(part) != std::string_view::npos;
  }
  return false;
}

} // namespace feedline::test
