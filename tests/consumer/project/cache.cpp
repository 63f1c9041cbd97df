// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/cache.hpp>
#include <feedline/feedline.hpp>

namespace fl = feedline;

int main() {
  const auto kept = fl::cache({.memory_bytes = 1'000'000});
  const auto pipeline =
      fl::from(std::vector{1, 2, 3}) | fl::map([](int n) { return 2 * n; }, fl::workers{2}) | kept;
  int sum = 0;
  for (const int n : pipeline.finite({.epochs = 2})) sum += n;
  return sum == 24 && kept.stats().hits + kept.stats().misses == 6 ? 0 : 1;
}
