// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

int main() {
  auto loader = (fl::from(std::vector<int>{1}) | fl::batch(2)).finite();
  // expect: a batch isn't copied: write `for (auto& batch : loader)`
#ifdef FEEDLINE_COMPILE_PASS
  for (auto& b : loader) static_cast<void>(b.values());
#else
  for (auto b : loader) static_cast<void>(b.values());
#endif
  // shown with the line of the header
}
