// SPDX-License-Identifier: MIT
#include <optional>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/live.hpp>

namespace fl = feedline;

int main() {
  auto branches = fl::broadcast(fl::from(std::vector{1, 2, 3}).finite(), 2);
  auto joined =
      fl::from(fl::join({}, fl::from(branches[0]).infinite(), fl::from(branches[1]).infinite())).infinite();
  int sum = 0;
  while (const std::optional<int> number = joined.next()) sum += *number;
  return sum == 12 ? 0 : 1;
}
