// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

struct base {
  int a;
};

#ifdef FEEDLINE_COMPILE_PASS
struct derived {
  base in;
  float b;
};
#else
struct derived : base {
  float b;
};
#endif

int main() {
  auto p = fl::from(std::vector<derived>(3)) |
           fl::batch(2); // expect: `item` has no shape, so `stage` can't make tensors
  // expect: a class with a constructor or a base class a function fields()
  // expect: item<derived>
  for (const auto& b : p.finite()) static_cast<void>(b.size());
}
