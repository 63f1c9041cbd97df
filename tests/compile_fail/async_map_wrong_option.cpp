// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/async/async_map.hpp>
#include <feedline/core/workers.hpp>
#include <feedline/source/range.hpp>

namespace fl = feedline;

asio::awaitable<int> twice(int i) { co_return 2 * i; }

int main() {
#ifdef FEEDLINE_COMPILE_PASS
  const fl::threads several{4};
#else
  const fl::workers several{4};
#endif
  auto p = fl::from(std::vector<int>{}) |
           fl::async_map(twice, several); // expect: async_map takes in_flight{…}, threads{…}
  static_cast<void>(p.finite().next());
}
