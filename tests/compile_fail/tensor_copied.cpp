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
  for (const auto& b : loader) {
    // expect: a tensor isn't copied by accident: bind `const auto& x`, std::move(x), or call x.clone()
#ifdef FEEDLINE_COMPILE_PASS
    const auto x = b.values().clone();
#else
    const auto x = b.values();
#endif
    static_cast<void>(x.size());
  }
  // shown with the line of the header
}
