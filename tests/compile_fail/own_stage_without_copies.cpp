// SPDX-License-Identifier: MIT
#include <memory>
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>

namespace fl = feedline;

struct twice {
  using output = int;

  void operator()(int n, auto& emit) { emit(2 * n); }

#ifndef FEEDLINE_COMPILE_PASS
  std::unique_ptr<int> memory;
#endif
};

int main() {
  auto p = fl::from(std::vector{1, 2}) | twice{} | fl::batch(2);
  // expect: `stage` can't be copied, but each thread has its own copy
  static_cast<void>(p.finite().next());
}
