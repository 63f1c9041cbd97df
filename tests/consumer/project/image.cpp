// SPDX-License-Identifier: MIT
#include <cstdint>
#include <vector>

#include <feedline/image.hpp>

int main() {
  const std::vector<std::uint8_t> pixels(8 * 8 * 3, 128);
  const auto file = feedline::encode_jpeg(pixels, {8, 8, 3});
  return feedline::decode_jpeg(file).size() == pixels.size() ? 0 : 1;
}
