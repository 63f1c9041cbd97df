// SPDX-License-Identifier: MIT
#include <cstddef>
#include <filesystem>
#include <fstream>

#include <feedline/feedline.hpp>
#include <feedline/window.hpp>

namespace fl = feedline;

int main() {
  std::filesystem::create_directory("games");
  for (const char* name : {"games/1.txt", "games/2.txt"}) std::ofstream(name) << name;
  const fl::sliding_window_pool pool(fl::watch_directory("games"), {.window = 10});
  std::size_t bytes = 0;
  auto loader = (pool | fl::map(fl::read_chunk, fl::workers{2})).finite();
  while (const auto chunk = loader.next()) bytes += chunk->size();
  return bytes == 22 ? 0 : 1;
}
