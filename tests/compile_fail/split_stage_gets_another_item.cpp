// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/split.hpp>

namespace fl = feedline;

#ifdef FEEDLINE_COMPILE_PASS
using item = long;
#else
using item = std::string;
#endif

int main() {
  auto stages = fl::map([](int) { return item(); }) | fl::map([](long n) { return static_cast<int>(n); });
  auto p = fl::from(std::vector{1, 2, 3}) | fl::split([](int) { return true; }, stages);
  // expect: `stage` can't be called with `item`
  // expect: stage<feedline::detail::map_stage
  // expect: item<std::
  static_cast<void>(p.finite().next());
}
