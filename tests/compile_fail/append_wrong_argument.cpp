// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include <feedline/core/dynamic_pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

#ifdef FEEDLINE_COMPILE_PASS
int length(int number) { return number; }
#else
int length(const std::string& text) { return static_cast<int>(text.size()); }
#endif

int main() {
  const fl::dynamic_pipeline p(fl::from(std::vector<int>{1}));
  // expect: can't be called with `item`, which is the output of `stage_before`
  // expect: stage_before<feedline::dynamic_pipeline<int>
  // expect: item<int>
  const fl::any_pipeline<int> any = p.append(fl::map(length));
  static_cast<void>(any.finite().next());
}
