// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/shuffle.hpp>
#include <feedline/stage/split.hpp>

namespace fl = feedline;

int main() {
  auto is_even = [](int n) { return n % 2 == 0; };
  auto same = fl::map([](int n) { return n; });
#ifdef FEEDLINE_COMPILE_PASS
  auto chain = fl::split(is_even, same | same) | fl::shuffle({.capacity = 10});
#else
  auto chain = fl::split(is_even, same | fl::shuffle({.capacity = 10}));
  // expect: may have only stateless stages (map, filter, flat_map, tap, split) without workers or queues
  // expect: shuffle_stage
#endif
  static_cast<void>((fl::from(std::vector<int>{}) | chain).finite().next());
}
