// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>

namespace fl = feedline;

int main() {
  auto loader = (fl::from(std::vector<int>{1}) | fl::batch(2)).finite();
#ifdef FEEDLINE_COMPILE_PASS
  for (const int n : loader.next().value().get<0>()) static_cast<void>(n);
#else
  for (const int n : loader.next()->get<0>())
    static_cast<void>(n); // expect: give it a name, auto batch = loader.next();
#endif
}
