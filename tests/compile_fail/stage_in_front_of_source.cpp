// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/take.hpp>

namespace fl = feedline;

int main() {
  auto source = fl::from(std::vector<int>{});
#ifdef FEEDLINE_COMPILE_PASS
  auto p = source | fl::take(2);
#else
  auto p = fl::take(2) | source; // expect: Right is a source and must come before Left, which is a stage
#endif
  // expect: take_stage
  static_cast<void>(p.finite().next());
}
