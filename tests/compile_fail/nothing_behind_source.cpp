// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/prefetch.hpp>

namespace fl = feedline;

int main() {
  auto source = fl::from(std::vector<int>{});
#ifdef FEEDLINE_COMPILE_PASS
  auto loader = (source | fl::prefetch(10)).finite();
#else
  auto loader = source.finite(); // expect: the pipeline has no stage: add one
#endif
  // expect: range_source
  static_cast<void>(loader.next());
}
