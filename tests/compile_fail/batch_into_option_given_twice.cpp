// SPDX-License-Identifier: MIT
#include <array>
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch_into.hpp>

namespace fl = feedline;

struct row {
  std::array<float, 2> values;
};

int main() {
#ifdef FEEDLINE_COMPILE_PASS
  const fl::workers second{3};
#else
  const fl::name second{"n"};
#endif
  const auto fill = [](int, fl::batch_slot<row>&) {};
  auto stage = fl::batch_into<row>(2, fill, fl::name{"fill"},
                                   second); // expect: `Options` of batch_into is given twice
  static_cast<void>((fl::from(std::vector<int>{}) | stage).finite().next());
}
