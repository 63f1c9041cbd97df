// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/source/zip.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>

namespace fl = feedline;

int main() {
  const auto numbers = fl::from(std::vector{1, 2, 3});
  const auto same = fl::map([](int n) { return n; });
#ifdef FEEDLINE_COMPILE_PASS
  auto p = fl::zip(numbers, numbers) | fl::prefetch(2);
#else
  auto p = fl::zip(numbers, numbers | same) | fl::prefetch(2);
  // expect: feedline::zip: it takes sources, and pipelines without stages
#endif
  static_cast<void>(p.finite().next());
}
