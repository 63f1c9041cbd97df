// SPDX-License-Identifier: MIT
#pragma once
// Replaces Catch2's Approx, whose name differs between versions.
#include <cmath>

namespace feedline::test {

/// Whether two numbers differ by at most `tolerance`.
inline bool near(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance; }

} // namespace feedline::test
