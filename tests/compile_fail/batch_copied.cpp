// SPDX-License-Identifier: MIT
#include <utility>
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
    // expect: a batch isn't copied: write `for (auto& batch : loader)`, pass `const auto& batch`, or std::move(batch)
#ifdef FEEDLINE_COMPILE_PASS
    const auto& kept = b;
#else
    const auto kept = b;
#endif
    static_cast<void>(kept.values());
  }
  // shown with the line of the header
}
