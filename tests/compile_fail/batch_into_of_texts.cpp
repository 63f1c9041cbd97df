// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch_into.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

struct example {
  float x;
#ifdef FEEDLINE_COMPILE_PASS
  char text;
#else
  std::string text;
#endif
};

int main() {
  const auto fill = [](int n, fl::batch_slot<example>& slot) {
    slot.get<&example::x>() = static_cast<float>(n);
    slot.get<&example::text>() = 'a';
  };
  auto p = fl::from(std::vector<int>{1}) | fl::batch_into<example>(2, fill, fl::workers{2});
  // expect: the samples of batch_into must be numbers
  // expect: for texts and lists use map and batch, or a std::array of a text's most characters
  for (const auto& b : p.finite()) static_cast<void>(b.get<&example::x>());
}
