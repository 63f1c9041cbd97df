// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/prefetch.hpp>

namespace fl = feedline;

int main() {
  auto first = fl::from(std::vector<int>{});
#ifdef FEEDLINE_COMPILE_PASS
  auto p = first | fl::prefetch(2);
#else
  auto p = first | fl::from(std::vector<int>{});
  // expect: Right is a second source: a pipeline has only one, at its beginning
#endif
  static_cast<void>(p.finite().next());
}
