// SPDX-License-Identifier: MIT
#pragma once

// One sentence and a header that doesn't exist, which ends the compilation, instead of all the errors that would follow.
#if defined(_WIN32) || !defined(__SIZEOF_INT128__) || __SIZEOF_POINTER__ != 8 ||                             \
    __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "feedline needs POSIX (not Windows), a 64-bit little-endian processor, and __int128 (GCC or Clang)"
#include <unsupported_platform>
#endif

// The library's version, and how it is built: header-only, or compiled once in libraries (FEEDLINE_COMPILED, which the
// CMake targets define). Everything is in an inline namespace of the version and of that choice, so that one program can
// link parts that were compiled with different versions or choices: they never share a function of feedline.
#ifdef FEEDLINE_COMPILED
#define FEEDLINE_ABI v0_1_compiled
#define FEEDLINE_INLINE
#else
#define FEEDLINE_ABI v0_1
#define FEEDLINE_INLINE inline
#endif

// A result that is a view of its object: compilers that know it warn if the object is a temporary.
#ifdef __clang__
#define FEEDLINE_LIFETIMEBOUND [[clang::lifetimebound]]
#else
#define FEEDLINE_LIFETIMEBOUND
#endif

namespace feedline::inline FEEDLINE_ABI {

inline constexpr int version_major = 0; ///< M of version M.N.P
inline constexpr int version_minor = 1; ///< N of version M.N.P
inline constexpr int version_patch = 0; ///< P of version M.N.P

} // namespace feedline::inline FEEDLINE_ABI
