// SPDX-License-Identifier: MIT
#pragma once
// Which sanitizer checks the tests: FEEDLINE_TEST_ASAN and FEEDLINE_TEST_TSAN are 1 or 0, with each compiler.

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FEEDLINE_TEST_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define FEEDLINE_TEST_TSAN 1
#endif
#endif

#if defined(__SANITIZE_ADDRESS__) && !defined(FEEDLINE_TEST_ASAN)
#define FEEDLINE_TEST_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__) && !defined(FEEDLINE_TEST_TSAN)
#define FEEDLINE_TEST_TSAN 1
#endif

#ifndef FEEDLINE_TEST_ASAN
#define FEEDLINE_TEST_ASAN 0
#endif
#ifndef FEEDLINE_TEST_TSAN
#define FEEDLINE_TEST_TSAN 0
#endif

namespace feedline::test {

inline constexpr bool is_sanitized = FEEDLINE_TEST_ASAN || FEEDLINE_TEST_TSAN;

} // namespace feedline::test
