// SPDX-License-Identifier: MIT
#include <cstdint>
#include <string>

#include <feedline/arrow.hpp>

int main() {
  auto rows = feedline::arrow_rows<std::int64_t>({"no such file.arrow"}, {"label"}).source();
  rows.start_epoch({});
  try {
    rows.next();
  } catch (const feedline::arrow_error& error) {
    return std::string(error.what()).find("no such file.arrow") == std::string::npos;
  }
  return 1;
}
