// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/async/async_map.hpp>
#include <feedline/source/range.hpp>

namespace fl = feedline;

#ifdef FEEDLINE_COMPILE_PASS
asio::awaitable<int> twice(int i) { co_return 2 * i; }
#else
int twice(int i) { return 2 * i; }
#endif

int main() {
  auto p = fl::from(std::vector<int>{}) |
           fl::async_map(twice); // expect: the function of async_map must return an asio::awaitable
  static_cast<void>(p.finite().next());
}
