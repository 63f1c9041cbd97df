// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

int main() {
  const auto p = fl::from(std::vector<int>{}) | fl::batch(2);
#ifdef FEEDLINE_COMPILE_PASS
  for (const auto& b : p.finite()) static_cast<void>(b.values());
#else
  for (const auto& b : p) static_cast<void>(b.values()); // expect: a pipeline only describes the work
#endif
}
