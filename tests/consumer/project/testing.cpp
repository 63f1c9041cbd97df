// SPDX-License-Identifier: MIT
#include <stdexcept>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/testing.hpp>

int main() {
  try {
    feedline::testing::check_source([] { return feedline::from(std::vector{1, 2, 3}).source(); });
  } catch (const feedline::testing::broken_promise&) {
    return 1;
  }
  return 0;
}
