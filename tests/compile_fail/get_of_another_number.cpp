// SPDX-License-Identifier: MIT
#include <utility>
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

int main() {
  auto b = (fl::from(std::vector<std::pair<int, int>>{}) | fl::batch(2)).finite().next();
#ifdef FEEDLINE_COMPILE_PASS
  static_cast<void>(b->get<1>());
#else
  static_cast<void>(b->get<2>()); // expect: the samples of this batch, of type `T`, have no field number `I`
#endif
}
