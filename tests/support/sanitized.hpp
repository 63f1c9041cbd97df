// SPDX-License-Identifier: MIT
#pragma once
// Whether a sanitizer is at work, which has an allocator of its own.

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FEEDLINE_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FEEDLINE_TEST_SANITIZED 1
#endif
#endif
#ifndef FEEDLINE_TEST_SANITIZED
#define FEEDLINE_TEST_SANITIZED 0
#endif
