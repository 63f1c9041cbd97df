// SPDX-License-Identifier: MIT
#pragma once
// Catch2's Approx has another name in each of its versions.
#include <cmath>

namespace feedline::test {

/// Whether two numbers differ by at most `tolerance`.
inline bool near(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance; }

} // namespace feedline::test
