// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/dynamic_pipeline.hpp>
#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/take.hpp>

namespace fl = feedline;

int main() {
  const fl::dynamic_pipeline p(fl::from(std::vector{1, 2, 3}));
#ifdef FEEDLINE_COMPILE_PASS
  static_cast<void>(p.append(fl::take(2)));
#else
  static_cast<void>(p.append(fl::global_shuffle()));
  // expect: `Part` isn't a stage, but changes the source
#endif
}
