// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

int main() {
  const auto same = [](int n) { return n; };
#ifdef FEEDLINE_COMPILE_PASS
  auto stage = fl::map(same, fl::workers{2}, fl::unordered);
#else
  auto stage = fl::map(same, fl::unordered); // expect: unordered needs workers
#endif
  static_cast<void>((fl::from(std::vector<int>{}) | stage).finite().next());
}
