// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

#ifdef FEEDLINE_COMPILE_PASS
int look(int number) { return number; }
#else
void look(int) {}
#endif

int main() {
  auto p = fl::from(std::vector<int>{}) | fl::map(look); // expect: returns nothing: use tap to look at items
  // expect: stage<feedline::detail::map_stage
  // expect: item<int>
  static_cast<void>(p.finite().next());
}
