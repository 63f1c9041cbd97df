// SPDX-License-Identifier: MIT
#include <mutex>
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

struct locked {
#ifndef FEEDLINE_COMPILE_PASS
  std::mutex mutex;
#endif
  int number;
};

int main() {
  auto p = fl::from(std::vector<int>{}) | fl::map([](int n) {
             locked l{};
             l.number = n;
             return locked{};
           });
  // expect: the items that `stage` emits can't be moved without throwing, so a queue can't pass them on
  // expect: stage<feedline::detail::map_stage
  static_cast<void>(p.finite().next());
}
