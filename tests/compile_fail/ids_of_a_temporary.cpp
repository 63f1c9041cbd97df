// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>

namespace fl = feedline;

int main() {
  auto loader = (fl::from(std::vector<int>{1}) | fl::batch(2)).finite();
#ifdef FEEDLINE_COMPILE_PASS
  for (const auto index : loader.next().value().indices()) static_cast<void>(index);
#else
  for (const auto& id : loader.next().value().ids()) static_cast<void>(id); // expect: ids
#endif
}
