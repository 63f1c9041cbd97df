// SPDX-License-Identifier: MIT
#include "counting.hpp"

#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>

int count_up_to(int end) {
  int count = 0;
  for (int i : feedline::from(std::vector<int>(static_cast<std::size_t>(end))).finite())
    count += i >= 0 ? 1 : 0;
  return count;
}
