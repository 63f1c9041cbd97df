// SPDX-License-Identifier: MIT
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <feedline/feedline.hpp>

namespace fl = feedline;

struct example {
  std::array<float, 8> inputs;
  int label;
};

std::size_t ten_stages(const std::vector<std::string>& files) {
  const auto pipeline =
      fl::lines(files)                                                    //
      | fl::filter([](const std::string& line) { return !line.empty(); }) // 1
      | fl::skip(1)                                                       // 2
      | fl::map([](std::string line) { return line + "\n"; })             // 3
      | fl::flat_map(
            [](const std::string& line) {
              return std::vector<std::string>{line, line};
            },
            fl::workers{2}) // 4
      | fl::enumerate()     // 5
      |
      fl::map(
          [](const fl::enumerated<std::string>& e, fl::context& context) { // 6
            return example{{static_cast<float>(context.random.uniform())}, static_cast<int>(e.value.size())};
          },
          fl::workers{4}) |
      fl::tap([](const example&) {})    // 7
      | fl::shuffle({.capacity = 1000}) // 8
      | fl::batch(64)                   // 9
      | fl::prefetch(4);                // 10
  std::size_t samples = 0;
  for (const auto& batch : pipeline.finite()) samples += batch.size();
  return samples;
}
