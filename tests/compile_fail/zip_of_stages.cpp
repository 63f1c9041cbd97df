// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/source/zip.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>
#include <feedline/stage/shuffle.hpp>

namespace fl = feedline;

int main() {
  const auto numbers = fl::from(std::vector{1, 2, 3});
  const auto same = fl::map([](int n) { return n; });
#ifdef FEEDLINE_COMPILE_PASS
  auto p = fl::zip(numbers, numbers | same) | fl::prefetch(2);
#else
  auto p = fl::zip(numbers, numbers | fl::shuffle({.capacity = 2})) | fl::prefetch(2);
  // expect: feedline::zip: it takes sources, each optionally followed by map, filter or tap
#endif
  static_cast<void>(p.finite().next());
}
