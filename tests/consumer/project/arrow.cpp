// SPDX-License-Identifier: MIT
#include <cstdint>
#include <string>

#include <feedline/arrow.hpp>

int main(int, char** arguments) {
  const std::string no_arrow_file = arguments[0];
  auto rows = feedline::arrow_rows<std::int64_t>({no_arrow_file}, {"label"}).source();
  rows.start_epoch({});
  try {
    rows.next();
  } catch (const feedline::arrow_error& error) {
    return std::string(error.what()).find(no_arrow_file) == std::string::npos;
  }
  return 1;
}
