// SPDX-License-Identifier: MIT
#include <string>

#include <feedline/source/records.hpp>
#include <feedline/stage/prefetch.hpp>

namespace fl = feedline;

struct position {
  int board;
#ifdef FEEDLINE_COMPILE_PASS
  float value;
#else
  std::string value; // expect: records<T> copies the bytes of a file into a T
#endif
};

int main() { static_cast<void>((fl::records<position>("games.bin") | fl::prefetch(1)).finite().next()); }
