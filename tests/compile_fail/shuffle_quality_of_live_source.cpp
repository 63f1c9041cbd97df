// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/source/push_source.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/telemetry/shuffle_quality.hpp>

int main() {
  namespace fl = feedline;
#ifdef FEEDLINE_COMPILE_PASS
  const auto pipeline = fl::from(std::vector{1, 2, 3}) | fl::batch(2);
#else
  const auto pipeline = fl::push_source<int>() | fl::batch(2);
  // expect: feedline::shuffle_quality: the samples of a live source can't be read twice
#endif
  static_cast<void>(fl::shuffle_quality(pipeline));
}
