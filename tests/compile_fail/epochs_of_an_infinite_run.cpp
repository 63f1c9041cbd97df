// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

int main() {
  const auto p = fl::from(std::vector<int>{1}) | fl::batch(2);
#ifdef FEEDLINE_COMPILE_PASS
  for (const auto& b : p.finite({.epochs = 3})) static_cast<void>(b.values());
  for (const auto& b : p.infinite({.seed = 7})) static_cast<void>(b.values());
  for (const auto& b : p.infinite({})) static_cast<void>(b.values());
#else
  for (const auto& b : p.infinite({.epochs = 3}))
    static_cast<void>(b.values()); // expect: infinite() has no .epochs
#endif
}
