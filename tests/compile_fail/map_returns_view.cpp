// SPDX-License-Identifier: MIT
#include <string>
#include <string_view>
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

#ifdef FEEDLINE_COMPILE_PASS
std::string first_word(const std::string& line) { return line.substr(0, line.find(' ')); }
#else
std::string_view first_word(const std::string& line) {
  return std::string_view(line).substr(0, line.find(' '));
}
#endif

int main() {
  auto p = fl::from(std::vector<std::string>{}) |
           fl::map(first_word); // expect: returns a view of its `item`, which would dangle: return a
  // expect: stage<feedline::detail::map_stage
  static_cast<void>(p.finite().next());
}
