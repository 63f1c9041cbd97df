// SPDX-License-Identifier: MIT
#pragma once
// Catch2's matchers for parts of strings have other names in each of its versions.
#include <string_view>

namespace feedline::test {

/// Whether `call` throws an Error with `part` in its text.
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
