// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/prefetch.hpp>

int main() {
  namespace fl = feedline;
#ifdef FEEDLINE_COMPILE_PASS
  const auto pipeline = fl::from(std::vector{1, 2, 3}) | fl::prefetch(2);
#else
  const auto pipeline = fl::from(std::vector{1, 2, 3}) | fl::prefetch<fl::overflow::drop_oldest>(2);
  // expect: feedline: a run with a queue that drops samples can't be resumed
#endif
  static_cast<void>(pipeline.finite().checkpoint());
}
