// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>

int same(int n) { return n; }

int main() {
  namespace fl = feedline;
#ifdef FEEDLINE_COMPILE_PASS
  const auto pipeline = fl::from(std::vector{1, 2, 3}) | fl::map(same, fl::workers{2}) | fl::batch(2);
#else
  const auto pipeline =
      fl::from(std::vector{1, 2, 3}) | fl::map(same, fl::workers{2}, fl::unordered) | fl::batch(2);
  // expect: feedline: a run with unordered workers or stages can't be resumed
#endif
  static_cast<void>(pipeline.finite().checkpoint());
}
