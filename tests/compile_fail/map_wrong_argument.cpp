// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

#ifdef FEEDLINE_COMPILE_PASS
int length(int number) { return number; }
#else
int length(const std::string& text) { return static_cast<int>(text.size()); }
#endif

int main() {
  auto p = fl::from(std::vector<int>{1}) | fl::map(length) | fl::batch(2);
  // expect: can't be called with `item`, which is the output of `stage_before`
  // expect: stage_before<feedline::detail::range_source<std::vector<int
  // expect: item<int>
  // expect: stage<feedline::detail::map_stage
  for (const auto& b : p.finite()) static_cast<void>(b);
}
