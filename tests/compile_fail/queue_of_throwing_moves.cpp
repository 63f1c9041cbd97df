// SPDX-License-Identifier: MIT
#include <feedline/queue/mpmc_queue.hpp>
#include <feedline/queue/reorder_queue.hpp>
#include <feedline/queue/spsc_queue.hpp>

namespace fl = feedline;

#ifdef FEEDLINE_COMPILE_PASS
constexpr bool moves_safely = true;
#else
constexpr bool moves_safely = false;
// expect: a queue's items must be movable without throwing
#endif

struct item {
  item() = default;

  item(item&&) noexcept(moves_safely) {}

  item& operator=(item&&) noexcept(moves_safely) { return *this; }
};

int main() {
  fl::spsc_queue<item> one_to_one(1);
  fl::mpmc_queue<item> many_to_many(1);
  fl::reorder_queue<item> in_order(1);
  static_cast<void>(one_to_one.size_approx() + many_to_many.size_approx() + in_order.size_approx());
}
