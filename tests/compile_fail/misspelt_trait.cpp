// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>

struct halved {
#ifdef FEEDLINE_COMPILE_PASS
  static constexpr feedline::stage_traits traits{.stateless = true};
#else
  static constexpr feedline::stage_traits traits{.statelss = true};
  // expect: statelss
#endif
  using output = int;

  void operator()(int n, auto& emit) { emit(n / 2); }
};

int main() {
  namespace fl = feedline;
  static_cast<void>(fl::from(std::vector{1, 2, 3}) | halved() | fl::batch(2));
}
