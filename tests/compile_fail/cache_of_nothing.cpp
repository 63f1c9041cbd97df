// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/cache/cache.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>

namespace fl = feedline;

int main() {
  auto same = fl::map([](int n) { return n; });
#ifdef FEEDLINE_COMPILE_PASS
  auto p = fl::from(std::vector{1, 2, 3}) | same | fl::cache({.memory_bytes = 1000}) | fl::prefetch(2);
#else
  auto p = fl::from(std::vector{1, 2, 3}) | same | fl::prefetch(2) | fl::cache({.memory_bytes = 1000});
  // expect: cache() has no stage to cache
#endif
  static_cast<void>(p.finite().next());
}
