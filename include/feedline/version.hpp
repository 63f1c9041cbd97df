// SPDX-License-Identifier: MIT
#pragma once

// The library's version. Everything is in an inline namespace of the major version, so that one program can
// link parts that were compiled with different versions.

namespace feedline::inline v0 {

inline constexpr int version_major = 0; ///< M of version M.N.P
inline constexpr int version_minor = 1; ///< N of version M.N.P
inline constexpr int version_patch = 0; ///< P of version M.N.P

} // namespace feedline::inline v0
