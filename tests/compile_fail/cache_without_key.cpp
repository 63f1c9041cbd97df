// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/cache.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

struct record {
  const char* name;
};

int main() {
  auto p = fl::from(std::vector<record>{{"one"}}) |
           fl::map([](const record& r) { return std::string(r.name); }) |
#ifdef FEEDLINE_COMPILE_PASS
           fl::cache({.memory = 1000}, [](const record& r) { return std::string(r.name); });
#else
           fl::cache({.memory = 1000}); // expect: cache() can't tell one `item_in_front` of the stages
                                        // expect: item_in_front<record>
#endif
  static_cast<void>(p.finite().next());
}
