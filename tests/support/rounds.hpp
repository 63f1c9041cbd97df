// SPDX-License-Identifier: MIT
#pragma once
// How often tests of chance try their luck.

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FEEDLINE_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FEEDLINE_TEST_SANITIZED 1
#endif
#endif

namespace feedline::test {

/// So many; a quarter of them under a sanitizer, which takes many times as long for each.
constexpr int rounds(int number) noexcept {
#ifdef FEEDLINE_TEST_SANITIZED
  return number < 4 ? 1 : number / 4;
#else
  return number;
#endif
}

} // namespace feedline::test
