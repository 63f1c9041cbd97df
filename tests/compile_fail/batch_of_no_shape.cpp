// SPDX-License-Identifier: MIT
#include <memory>
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

struct node {
  std::shared_ptr<node> next;
};

int main() {
  auto nodes = fl::from(std::vector<int>{}) | fl::map([](int) { return node(); });
#ifdef FEEDLINE_COMPILE_PASS
  auto p = nodes | fl::batch(4, fl::as_list);
#else
  auto p =
      nodes |
      fl::batch(4); // expect: the `field` of `item` can't be stacked, so `stage` can't make tensors of it
#endif
  // expect: next
  // expect: std::shared_ptr<node>
  // expect: stage<feedline::detail::batch_stage
  // expect: item<node>
  // expect: stage_before<feedline::detail::map_stage
  for (const auto& b : p.finite()) static_cast<void>(b.size());
}
