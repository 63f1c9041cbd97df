// SPDX-License-Identifier: MIT
// A part of a header-only program that chooses options of which the other parts compile nothing.
#include <chrono>
#include <cstdio>
#include <string>

#include <feedline/core/options.hpp>

feedline::finite_options chosen_options() {
  feedline::finite_options options{.on_starved = [](const std::string& why) { std::puts(why.c_str()); },
                                   .watchdog = std::chrono::minutes(1)};
  if (options.memory_budget == 0) options.memory_budget = std::size_t{1} << 30;
  return options;
}
