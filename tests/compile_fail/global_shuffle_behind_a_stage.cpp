// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/take.hpp>

namespace fl = feedline;

int main() {
  auto same = fl::map([](int n) { return n; });
#ifdef FEEDLINE_COMPILE_PASS
  auto p = fl::from(std::vector{1, 2, 3}) | same | fl::global_shuffle();
#else
  auto p = fl::from(std::vector{1, 2, 3}) | same | fl::take(2) | fl::global_shuffle();
  // expect: must follow the source directly
#endif
  static_cast<void>(p.finite().next());
}
