// SPDX-License-Identifier: MIT
#pragma once
// Mathematical functions for templates, without <cmath>: compilers take longer for its special functions than for most of
// the component's headers.
#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

inline double cosine_of(double angle) noexcept { return __builtin_cos(angle); }

inline double sine_of(double angle) noexcept { return __builtin_sin(angle); }

inline double exponential_of(double v) noexcept { return __builtin_exp(v); }

inline double logarithm_of(double v) noexcept { return __builtin_log(v); }

inline double root_of(double v) noexcept { return __builtin_sqrt(v); }

/// To the nearest integer, halves away from 0.
inline double rounded(double v) noexcept { return __builtin_round(v); }

/// Towards 0.
inline double truncated(double v) noexcept { return __builtin_trunc(v); }

/// Downwards.
inline float floor_of(float v) noexcept { return __builtin_floorf(v); }

inline float distance_from_0(float v) noexcept { return __builtin_fabsf(v); }

} // namespace feedline::inline FEEDLINE_ABI::detail
