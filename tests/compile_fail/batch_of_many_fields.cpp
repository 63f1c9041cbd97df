// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>

namespace fl = feedline;

struct example {
  float a, b, c, d, e, f, g, h, i, j, k, l;
#ifndef FEEDLINE_COMPILE_PASS
  float m;
#endif
};

int main() {
  static_cast<void>((fl::from(std::vector<example>{}) | fl::batch(2)).finite());
  // expect: `item` has no shape
  // expect: a plain struct of those (no constructor, at most 12 fields)
}
