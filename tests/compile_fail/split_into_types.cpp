// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/split.hpp>

namespace fl = feedline;

int main() {
  auto is_even = [](int n) { return n % 2 == 0; };
  auto to_text = fl::map([](int n) { return std::to_string(n); });
#ifdef FEEDLINE_COMPILE_PASS
  auto p = fl::from(std::vector{1, 2, 3}) | fl::split(is_even, to_text, to_text);
#else
  auto p = fl::from(std::vector{1, 2, 3}) | fl::split(is_even, to_text);
  // expect: the branches of split emit different types, `if_true` and `if_false`
  // expect: if_true<std::
  // expect: if_false<int>
#endif
  static_cast<void>(p.finite().next());
}
