// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/async/async_flat_map.hpp>
#include <feedline/source/range.hpp>

namespace fl = feedline;

#ifdef FEEDLINE_COMPILE_PASS
fl::async_generator<int> twice(int i) { co_yield 2 * i; }
#else
asio::awaitable<int> twice(int i) { co_return 2 * i; }
#endif

int main() {
  auto p = fl::from(std::vector<int>{}) |
           fl::async_flat_map(twice); // expect: must return a feedline::async_generator, as a coroutine
  static_cast<void>(p.finite().next());
}
