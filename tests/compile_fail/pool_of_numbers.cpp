// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include <feedline/source/range.hpp>
#include <feedline/window/sliding_window_pool.hpp>

int main() {
  namespace fl = feedline;
#ifdef FEEDLINE_COMPILE_PASS
  const auto files = fl::from(std::vector<std::string>{"a"});
#else
  const auto files = fl::from(std::vector<int>{1});
  // expect: feedline::sliding_window_pool: it takes a source of watched_file, of paths, or of objects with size(), key(i) and read(i)
#endif
  fl::sliding_window_pool pool(files);
  pool.set_anchor("a");
}
