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
  auto p =
#endif
      fl::from(std::vector<int>{1}) | fl::batch(2); // expect: a pipeline only describes the work
  // of -Werror=unused-result
#ifdef FEEDLINE_COMPILE_PASS
  static_cast<void>(p.finite());
#endif
}
