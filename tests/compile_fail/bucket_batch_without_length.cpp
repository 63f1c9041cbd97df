// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/bucket_batch.hpp>

namespace fl = feedline;

int main() {
  const auto numbers = fl::from(std::vector{1, 2, 3});
#ifdef FEEDLINE_COMPILE_PASS
  auto p = numbers | fl::bucket_batch({.boundaries = {2}, .batch_size = 4},
                                      [](int n) { return static_cast<unsigned>(n); });
#else
  // expect: `stage` doesn't know the length of `item`
  auto p = numbers | fl::bucket_batch({.boundaries = {2}, .batch_size = 4});
#endif
  // expect: stage<feedline::detail::bucket_batch_stage
  // expect: item<int>
  static_cast<void>(p.finite().next());
}
