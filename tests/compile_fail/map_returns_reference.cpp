// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

struct example {
  std::string text;
};

#ifdef FEEDLINE_COMPILE_PASS
std::string text_of(const example& e) { return e.text; }
#else
const std::string& text_of(const example& e) { return e.text; }
#endif

int main() {
  auto p =
      fl::from(std::vector<example>{}) | fl::map(text_of); // expect: returns a reference, which would dangle
  // expect: stage<feedline::detail::map_stage
  // expect: item<example>
  static_cast<void>(p.finite().next());
}
