// SPDX-License-Identifier: MIT
#include <optional>
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/generate.hpp>
#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>

namespace fl = feedline;

int main() {
#ifdef FEEDLINE_COMPILE_PASS
  auto source = fl::from(std::vector{1, 2, 3});
#else
  auto source = fl::generate([] { return std::optional(1); });
  // expect: this Source has no access to its samples by position
#endif
  static_cast<void>((source | fl::global_shuffle() | fl::batch(2)).finite().next());
}
