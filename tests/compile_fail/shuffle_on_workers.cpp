// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/shuffle.hpp>

namespace fl = feedline;

int main() {
  auto same = fl::map([](int n) { return n; });
#ifdef FEEDLINE_COMPILE_PASS
  auto chain = fl::parallel(fl::workers{2}, same | same) | fl::shuffle({.capacity = 10});
#else
  auto chain = fl::parallel(fl::workers{2}, same | fl::shuffle({.capacity = 10}));
  // expect: only stateless stages (map, filter, flat_map, tap) can run on several workers
  // expect: shuffle_stage
#endif
  static_cast<void>((fl::from(std::vector<int>{}) | chain).finite().next());
}
