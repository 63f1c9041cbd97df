// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/split.hpp>

namespace fl = feedline;

#ifdef FEEDLINE_COMPILE_PASS
using item = int;
#else
using item = std::string;
#endif

int main() {
  auto p = fl::from(std::vector{1, 2, 3}) |
           fl::split([](const item&) { return true; }, fl::map([](int n) { return n; }));
  // expect: `stage` can't be called with `item`
  // expect: split_stage
  // expect: item<int>
  static_cast<void>(p.finite().next());
}
