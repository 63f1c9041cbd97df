// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/flat_map.hpp>

namespace fl = feedline;

#ifdef FEEDLINE_COMPILE_PASS
std::vector<int> twice(int n) { return {n, n}; }
#else
int twice(int n) { return n; }
#endif

int main() {
  auto p = fl::from(std::vector<int>{}) |
           fl::flat_map(twice); // expect: must return a range with begin() and end()
  // expect: stage<feedline::detail::flat_map_stage
  static_cast<void>(p.finite().next());
}
