// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

int main() {
  const std::vector<int> numbers;
#ifdef FEEDLINE_COMPILE_PASS
  const auto p = fl::from(numbers) | fl::map([](int n) { return n; });
#else
  // expect: begin the pipeline with from(container)
  const auto p = numbers | fl::map([](int n) { return n; });
#endif
  for (const auto& b : (p | fl::batch(2)).finite()) static_cast<void>(b.get<0>().size());
}
