// SPDX-License-Identifier: MIT
#include <cstdint>
#include <vector>

#include <feedline/image.hpp>
#include <feedline/stage/batch_into.hpp> // after the image headers: no name of theirs may hide one of its

int main() {
  const std::vector<std::uint8_t> pixels(8 * 8 * 3, 128);
  const auto file = feedline::encode_jpeg(pixels, {8, 8, 3});
  return feedline::decode_jpeg(file).size() == pixels.size() ? 0 : 1;
}
