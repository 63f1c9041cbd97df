// SPDX-License-Identifier: MIT
#include <cstddef>
#include <vector>

#include <feedline/feedline.hpp>

int main() {
  const auto pipeline =
      feedline::from(std::vector{1, 2, 3}) | feedline::map([](int i) { return 2 * i; }) | feedline::batch(2);
  std::size_t samples = 0;
  for (const auto& batch : pipeline.finite()) samples += batch.size();
  return samples == 3 ? 0 : 1;
}
