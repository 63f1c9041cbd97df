// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

int main() {
#ifdef FEEDLINE_COMPILE_PASS
  auto f = fl::per_worker([] { return [n = 0](int x) mutable { return x + n++; }; });
#else
  auto f = fl::per_worker([n = 0](int x) mutable { return x + n++; });
  // expect: per_worker takes a function without arguments
#endif
  auto p = fl::from(std::vector{1, 2}) | fl::map(f, fl::workers{2}) | fl::batch(2);
  for (const auto& b : p.finite()) static_cast<void>(b.values());
}
