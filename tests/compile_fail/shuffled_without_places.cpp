// SPDX-License-Identifier: MIT
#include <optional>
#include <vector>

#include <feedline/feedline.hpp>

namespace fl = feedline;

int main() {
#ifdef FEEDLINE_COMPILE_PASS
  auto source = fl::from(std::vector{1, 2, 3});
#else
  auto source = fl::generate([] { return std::optional(1); });
  // expect: the samples of this Source can't be had by their place
#endif
  static_cast<void>((source | fl::shuffled() | fl::batch(2)).finite().next());
}
