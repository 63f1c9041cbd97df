// SPDX-License-Identifier: MIT
#include <cstdint>
#include <vector>

#include <feedline/core/state.hpp>

namespace fl = feedline;

struct remembering {
  void state(auto& archive) {
#ifdef FEEDLINE_COMPILE_PASS
    archive(last);
#else
    archive(last, where);
#endif
  }

  int last = 0;
  const int* where = nullptr;
};

int main() {
  // expect: feedline: a state can't store a `Value`
  // expect: state_of_pointers.cpp:14
  std::vector<std::uint64_t> words;
  fl::state_writer writer(words);
  remembering().state(writer);
}
