// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

int main() {
#ifdef FEEDLINE_COMPILE_PASS
  auto f = fl::per_worker([] { return [buffer = 0](int n) mutable { return buffer = n; }; });
#else
  auto f = [buffer = 0](int n) mutable { return buffer = n; };
#endif
  auto p = fl::from(std::vector<int>{}) | fl::map(f, fl::workers{4}) | fl::batch(2);
  // expect: the function of `stage` changes itself when called (a mutable lambda?)
  // expect: make a separate function for each worker with per_worker(factory)
  // expect: stage<feedline::detail::map_stage
  static_cast<void>(p.finite().next());
}
