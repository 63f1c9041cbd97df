// SPDX-License-Identifier: MIT
#include <string>
#include <string_view>
#include <vector>

#include <feedline/cache/cache.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

#ifdef FEEDLINE_COMPILE_PASS
using text = std::string;
#else
using text = std::string_view;
#endif

int main() {
  auto p = fl::from(std::vector{1, 2, 3}) | fl::map([](int) { return text("one"); }) |
           fl::cache({.memory_bytes = 1000}); // expect: cache() can't store `cached_item`
  // expect: cached_item<std::basic_string_view
  static_cast<void>(p.finite().next());
}
