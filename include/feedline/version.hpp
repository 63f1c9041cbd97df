// SPDX-License-Identifier: MIT
#pragma once

// Which feedline this is. All of it lies in an inline namespace of its major version, so that a program may be linked
// of parts that were compiled with different ones.

namespace feedline::inline v0 {

inline constexpr int version_major = 0;
inline constexpr int version_minor = 1;
inline constexpr int version_patch = 0;

} // namespace feedline::inline v0
