// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>

#include "counting.hpp"

int main() {
  int sum = 0;
  for (int i : feedline::from(std::vector{3, 4}).finite()) sum += count_up_to(i);
  return sum == 7 ? 0 : 1;
}
