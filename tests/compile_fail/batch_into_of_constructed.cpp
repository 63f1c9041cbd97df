// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch_into.hpp>

namespace fl = feedline;

struct example {
#ifndef FEEDLINE_COMPILE_PASS
  example(float value);
#endif
  float x;
  int label;
};

int main() {
  auto fill = [](int, fl::batch_slot<example>&) {};
  auto p = fl::from(std::vector{1}) |
           fl::batch_into<example>(2, fill); // expect: the samples of batch_into must be
  // expect: give a class with a constructor or a base class a function fields() that returns std::tie(a, b)
  static_cast<void>(p.finite());
}
