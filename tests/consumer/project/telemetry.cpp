// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/telemetry.hpp>

int main() {
  auto loader = feedline::from(std::vector{1, 2, 3}).finite();
  while (loader.next()) continue;
  return to_prometheus(loader.metrics()).find("feedline_consumer_items_total 3\n") == std::string::npos;
}
