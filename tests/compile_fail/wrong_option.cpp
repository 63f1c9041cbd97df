// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

int main() {
#ifdef FEEDLINE_COMPILE_PASS
  const fl::workers eight{8};
#else
  const int eight = 8;
#endif
  auto stage =
      fl::map([](int n) { return n; }, eight); // expect: a stage takes name{…}, workers{…} and unordered
  static_cast<void>((fl::from(std::vector<int>{}) | stage).finite().next());
}
