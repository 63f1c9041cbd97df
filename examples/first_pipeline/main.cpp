// SPDX-License-Identifier: MIT
// A first pipeline: squares numbers on two threads, shuffles them and makes batches. Try other seeds, sizes
// and numbers of workers: the output depends on the seed and the sizes, never on the number of workers.
// Usage: first_pipeline
#include <cstddef>
#include <cstdio>
#include <ranges>

#include <feedline/feedline.hpp>

namespace fl = feedline;

struct example {
  int number;
  int square;
};

example square(int i) { return {i, i * i}; }

int main() {
  const auto pipeline = fl::from(std::views::iota(0, 10)) //
                        | fl::map(square, fl::workers{2}) //
                        | fl::shuffle({.capacity = 5})    //
                        | fl::batch(4);

  for (const auto& batch : pipeline.finite({.seed = 7})) {
    const fl::tensor<int>& numbers = batch.get<&example::number>();
    const fl::tensor<int>& squares = batch.get<&example::square>();
    for (std::size_t i = 0; i < batch.size(); ++i) std::printf("%d² = %-4d", numbers[i], squares[i]);
    std::puts("");
  }
}
