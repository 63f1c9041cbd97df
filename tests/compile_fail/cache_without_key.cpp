// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include <feedline/cache/cache.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

struct record {
  const char* name;
};

int main() {
  auto p = fl::from(std::vector<record>{{"one"}}) |
           fl::map([](const record& r) { return std::string(r.name); }) |
#ifdef FEEDLINE_COMPILE_PASS
           fl::cache({.memory_bytes = 1000}, [](const record& r) { return std::string(r.name); });
#else
           fl::cache({.memory_bytes = 1000}); // expect: cache() can't identify `input_item`
                                              // expect: input_item<record>
#endif
  static_cast<void>(p.finite().next());
}
