// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

int main() {
#ifdef FEEDLINE_COMPILE_PASS
  const fl::name second{"n"};
#else
  const fl::workers second{3};
#endif
  auto stage =
      fl::map([](int n) { return n; }, fl::workers{2}, second); // expect: `Options` of a stage is given twice
  static_cast<void>((fl::from(std::vector<int>{}) | stage).finite().next());
}
