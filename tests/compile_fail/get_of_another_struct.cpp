// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>

namespace fl = feedline;

struct example {
  float x;
  int label;
};

struct other {
  int label;
};

int main() {
  auto loader = (fl::from(std::vector<example>{}) | fl::batch(2)).finite();
  auto b = loader.next();
#ifdef FEEDLINE_COMPILE_PASS
  static_cast<void>(b->get<&example::label>());
#else
  static_cast<void>(b->get<&other::label>()); // expect: `Member` is not a field of `T`
                                              // expect: other
                                              // expect: example
#endif
}
