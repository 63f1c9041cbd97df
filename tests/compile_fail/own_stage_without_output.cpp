// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>

namespace fl = feedline;

struct twice {
#ifdef FEEDLINE_COMPILE_PASS
  using output = int;
#endif

  void operator()(int n, auto& emit) { emit(2 * n); }
};

int main() {
  auto p = fl::from(std::vector{1, 2}) | twice{} | fl::batch(2);
  // expect: doesn't name the type of the items that it emits
  // expect: stage<twice>
  static_cast<void>(p.finite().next());
}
