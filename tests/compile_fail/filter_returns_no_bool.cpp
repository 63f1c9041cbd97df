// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/filter.hpp>

namespace fl = feedline;

#ifdef FEEDLINE_COMPILE_PASS
bool large(int n) { return n > 3; }
#else
std::string large(int n) { return n > 3 ? "yes" : "no"; }
#endif

int main() {
  auto p =
      fl::from(std::vector<int>{}) | fl::filter(large); // expect: the function of `stage` must return a bool
  // expect: stage<feedline::detail::filter_stage
  static_cast<void>(p.finite().next());
}
