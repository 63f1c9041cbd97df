// SPDX-License-Identifier: MIT
#include <feedline/async.hpp>
#include <feedline/feedline.hpp>

#include <vector>

namespace fl = feedline;

int main() {
  const auto twice = [](int i) -> asio::awaitable<int> { co_return 2 * i; };
  int sum = 0;
  for (const int i : (fl::from(std::vector{1, 2, 3}) | fl::async_map(twice)).finite()) sum += i;
  return sum == 12 ? 0 : 1;
}
