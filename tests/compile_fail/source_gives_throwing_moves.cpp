// SPDX-License-Identifier: MIT
#include <feedline/core/pipeline.hpp>
#include <feedline/source/generate.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

#ifdef FEEDLINE_COMPILE_PASS
constexpr bool moves_safely = true;
#else
constexpr bool moves_safely = false;
// expect: the items that this Source yields can't be moved without throwing
#endif

struct item {
  item() = default;

  item(item&&) noexcept(moves_safely) {}

  item& operator=(item&&) noexcept(moves_safely) { return *this; }
};

int main() {
  const auto p =
      fl::generate([n = 0]() mutable { return ++n < 3 ? std::optional<item>(item()) : std::nullopt; }) |
      fl::map([](const item&) { return 1; });
  static_cast<void>(p.finite().next());
}
