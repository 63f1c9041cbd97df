// SPDX-License-Identifier: MIT
#pragma once
#include <cstdlib>

namespace feedline::test {

/// For fuzz targets: libFuzzer reports an input for which it isn't so.
inline void expect(bool is_so) {
  if (!is_so) std::abort();
}

} // namespace feedline::test
