// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/interleave.hpp>
#include <feedline/source/lines.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/prefetch.hpp>

namespace fl = feedline;

int main() {
#ifdef FEEDLINE_COMPILE_PASS
  auto p = fl::lines({}) | fl::interleave(4) | fl::prefetch(2);
#else
  auto p = fl::from(std::vector{1, 2, 3}) | fl::interleave(4) | fl::prefetch(2);
  // expect: this Source doesn't read one file after another, so there are none to interleave
#endif
  static_cast<void>(p.finite().next());
}
