// SPDX-License-Identifier: MIT
#include <feedline/image/resize.hpp>

#include "support/catch.hpp"

#include <feedline/core/random.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <vector>

namespace fl = feedline;

namespace {

fl::tensor<std::uint8_t> noise(std::size_t height, std::size_t width, std::size_t channels) {
  fl::tensor<std::uint8_t> image(fl::shape{height, width, channels});
  fl::random_generator random(height * 1000 + width);
  for (auto& value : image) value = static_cast<std::uint8_t>(random.below(256));
  return image;
}

fl::tensor<std::uint8_t> row(std::initializer_list<int> values) {
  fl::tensor<std::uint8_t> image(fl::shape{1, values.size(), 1});
  std::size_t i = 0;
  for (const int value : values) image[i++] = static_cast<std::uint8_t>(value);
  return image;
}

std::vector<int> resized_row(std::initializer_list<int> values, std::size_t width) {
  const auto result = fl::resize(row(values), 1, width);
  return {result.begin(), result.end()};
}

// The definition, without a thought of speed: every pixel weighs in, by its distance in both directions.
double reference(const fl::tensor<std::uint8_t>& image, std::size_t height, std::size_t width, std::size_t y,
                 std::size_t x, std::size_t c) {
  const auto weight = [](std::size_t from, std::size_t to, std::size_t pixel, std::size_t place) {
    const double scale = static_cast<double>(from) / static_cast<double>(to);
    const double distance = (static_cast<double>(place) + 0.5) * scale - (static_cast<double>(pixel) + 0.5);
    return std::max(0.0, 1 - std::abs(distance) / std::max(1.0, scale));
  };
  double sum = 0, weights = 0;
  for (std::size_t from_y = 0; from_y < image.shape()[0]; ++from_y)
    for (std::size_t from_x = 0; from_x < image.shape()[1]; ++from_x) {
      const double w =
          weight(image.shape()[0], height, from_y, y) * weight(image.shape()[1], width, from_x, x);
      sum += w * image[(from_y * image.shape()[1] + from_x) * image.shape()[2] + c];
      weights += w;
    }
  return sum / weights;
}

} // namespace

TEST_CASE("resizing is the sum over all pixels that its definition says") {
  const auto [height, width] =
      GENERATE(table<std::size_t, std::size_t>({{1, 1}, {5, 40}, {23, 17}, {40, 3}}));
  const auto [to_height, to_width] =
      GENERATE(table<std::size_t, std::size_t>({{1, 1}, {7, 9}, {23, 17}, {16, 50}, {60, 2}}));
  const auto image = noise(height, width, 3);
  const auto result = fl::resize(image, to_height, to_width);
  REQUIRE(result.shape() == fl::shape{to_height, to_width, 3});
  double largest = 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double expected = reference(image, to_height, to_width, i / 3 / to_width, i / 3 % to_width, i % 3);
    largest = std::max(largest, std::abs(expected - result[i]));
  }
  CHECK(largest < 0.501);
}

TEST_CASE("an image of its own size and one of a single colour stay as they are") {
  const auto image = noise(13, 11, 3);
  const auto same = fl::resize(image, 13, 11);
  CHECK(std::equal(same.begin(), same.end(), image.begin(), image.end()));
  for (const int value : {0, 1, 127, 254, 255}) {
    fl::tensor<std::uint8_t> plain(fl::shape{9, 14, 1});
    std::fill(plain.begin(), plain.end(), static_cast<std::uint8_t>(value));
    for (const auto pixel : fl::resize(plain, 31, 5)) REQUIRE(pixel == value);
  }
}

TEST_CASE("a row is resized as computed by hand") {
  CHECK(resized_row({0, 100, 200, 255}, 2) ==
        std::vector<int>{71, 209}); // (0.75·100 + 0.25·200)/1.75, and so on
  CHECK(resized_row({0, 100}, 4) == std::vector<int>{0, 25, 75, 100});
  CHECK(resized_row({10, 20, 60}, 1) == std::vector<int>{29}); // (2/3·10 + 20 + 2/3·60)/(7/3)
}

TEST_CASE("what isn't an image is refused") {
  CHECK_THROWS_AS(fl::resize(fl::tensor<std::uint8_t>(fl::shape{4, 4}), 2, 2), std::invalid_argument);
  CHECK_THROWS_AS(fl::resize(fl::tensor<std::uint8_t>(fl::shape{0, 4, 3}), 2, 2), std::invalid_argument);
  CHECK_THROWS_AS(fl::resize(noise(4, 4, 3), 0, 2), std::invalid_argument);
  CHECK_THROWS_AS(fl::resize(noise(4, 4, 3), 2, 0), std::invalid_argument);
}
