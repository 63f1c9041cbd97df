// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

struct word_lengths {
  using output = int;

  void operator()(const std::string& word, auto& emit) { emit(static_cast<int>(word.size())); }
};

int main() {
  auto words = fl::from(std::vector<std::string>{});
#ifdef FEEDLINE_COMPILE_PASS
  auto p = words | word_lengths{} | fl::batch(2);
#else
  auto p = words | fl::map(&std::string::size) | word_lengths{} | fl::batch(2);
#endif
  // expect: can't be called with `item`, which is the output of `stage_before`
  // expect: stage<word_lengths>
  // expect: stage_before<feedline::detail::map_stage
  static_cast<void>(p.finite().next());
}
