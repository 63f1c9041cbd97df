// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/concat.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/prefetch.hpp>

namespace fl = feedline;

int main() {
  const auto numbers = fl::from(std::vector{1, 2, 3});
#ifdef FEEDLINE_COMPILE_PASS
  const auto all = fl::concat(numbers, fl::from(std::vector{4}));
#else
  const auto all = fl::concat(numbers, fl::from(std::vector{0.5}));
  // expect: feedline::concat: its sources must give items of one type
#endif
  auto p = all | fl::prefetch(2);
  static_cast<void>(p.finite().next());
}
