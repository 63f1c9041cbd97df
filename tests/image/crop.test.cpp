// SPDX-License-Identifier: MIT
#include <feedline/image/crop.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include <feedline/image/image_error.hpp>

#include "support/catch.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using fl::test::throws_saying;

namespace {

std::vector<fl::crop_box> draw(const fl::random_resized_crop& crop, std::size_t height, std::size_t width,
                               std::size_t count) {
  fl::random_generator random(5);
  std::vector<fl::crop_box> boxes;
  for (std::size_t i = 0; i < count; ++i) boxes.push_back(crop(height, width, random));
  return boxes;
}

// Chi-square of the counts in ten equal ranges from low to high; its 99.9 % point is 27.9.
template <class Value>
double unevenness(const std::vector<fl::crop_box>& boxes, double low, double high, Value value) {
  std::array<double, 10> often{};
  for (const auto& box : boxes) {
    const double place = (value(box) - low) / (high - low) * 10;
    often[static_cast<std::size_t>(std::clamp(place, 0.0, 9.0))] += 1;
  }
  const double expected = static_cast<double>(boxes.size()) / 10;
  double sum = 0;
  for (const double n : often) sum += (n - expected) * (n - expected) / expected;
  return sum;
}

} // namespace

TEST_CASE("random boxes are within the image, have whole pixels, and keep the limits of area and ratio") {
  for (const auto& [height, width] :
       {std::pair<std::size_t, std::size_t>{375, 500}, {500, 333}, {17, 23}, {1, 1}, {3, 400}})
    for (const auto& box : draw({}, height, width, 2000)) {
      const auto rows = static_cast<double>(height), columns = static_cast<double>(width);
      REQUIRE((box.top >= 0 && box.left >= 0 && box.height >= 1 && box.width >= 1));
      REQUIRE((box.top + box.height <= rows && box.left + box.width <= columns));
      for (const double side : {box.top, box.left, box.height, box.width}) REQUIRE(side == std::floor(side));
      if (height < 100) continue;
      // Each side is rounded, by up to half a pixel.
      const double rounding = 0.5 / box.height + 0.5 / box.width;
      REQUIRE(box.height * box.width > 0.08 * rows * columns * (1 - rounding));
      REQUIRE(box.width / box.height > 0.75 * (1 - rounding) * (1 - rounding));
      REQUIRE(box.width / box.height < 4.0 / 3 * (1 + rounding) * (1 + rounding));
      REQUIRE_FALSE(box.sample_outside);
    }
}

TEST_CASE("areas, logarithms of ratios and positions are uniform") {
  // Small enough that every box fits.
  const auto boxes = draw({.scale = {0.08, 0.5}}, 4000, 4000, 20'000);
  CHECK(unevenness(boxes, 0.08, 0.5, [](const auto& b) { return b.height * b.width / 16e6; }) < 27.9);
  CHECK(unevenness(boxes, -std::log(4.0 / 3), std::log(4.0 / 3),
                   [](const auto& b) { return std::log(b.width / b.height); }) < 27.9);
  CHECK(unevenness(boxes, 0, 1, [](const auto& b) { return b.top / (4001 - b.height); }) < 27.9);
  CHECK(unevenness(boxes, 0, 1, [](const auto& b) { return b.left / (4001 - b.width); }) < 27.9);
  // … and independent: the area doesn't correlate with the position.
  double product = 0;
  for (const auto& b : boxes)
    product += (b.height * b.width / 16e6 - 0.29) * (b.top / (4001 - b.height) - 0.5);
  CHECK(std::abs(product / 20'000) < 0.001);
}

TEST_CASE("if no box fits, the result is the largest allowed one in the center") {
  CHECK(draw({}, 10, 1000, 1)[0] ==
        fl::crop_box{0, 493, 10, 13}); // 13 = round(10 · 4/3), (1000 - 13) / 2 rounded down
  CHECK(draw({}, 1000, 9, 1)[0] == fl::crop_box{494, 0, 12, 9});
  CHECK(draw({.scale = {1, 1}, .ratio = {2, 2}}, 100, 100, 1)[0] == fl::crop_box{25, 0, 50, 100});
}

TEST_CASE("the same generator draws the same box") {
  const auto a = draw({}, 300, 400, 50), b = draw({}, 300, 400, 50);
  CHECK(a == b);
  CHECK_FALSE(a[0] == a[1]);
}

TEST_CASE("a resized center crop is torchvision's Resize and CenterCrop") {
  // 375 x 500: resized to 256 x 341, cropped at 16, 58 (58.5, to the even side)
  const fl::crop_box box = fl::resized_center_crop{}(375, 500);
  CHECK(box.top == Approx(16 * 375.0 / 256));
  CHECK(box.left == Approx(58 * 500.0 / 341));
  CHECK(box.height == Approx(224 * 375.0 / 256));
  CHECK(box.width == Approx(224 * 500.0 / 341));
  CHECK(box.sample_outside);
  const fl::crop_box upright = fl::resized_center_crop{100, 100}(100, 300);
  CHECK((upright.top == 0 && upright.left == Approx(100) && upright.height == Approx(100)));
}

TEST_CASE("a resized center crop is torchvision's to the pixel: sides are rounded down, halves to even") {
  struct example {
    std::size_t long_side, resized, begin; // of 375 x long_side
  };

  for (const auto& [long_side, resized, begin] : {example{499, 340, 58}, // 340.7; 58
                                                  {496, 338, 57},        // 338.6; 57
                                                  {497, 339, 58},        // 339.3; 57.5
                                                  {498, 339, 58},        // 339.97; 57.5
                                                  {501, 342, 59},        // 342.02; 59
                                                  {502, 342, 59},        // 342.7; 59
                                                  {503, 343, 60},        // 343.4; 59.5
                                                  {500, 341, 58},        // 341.3; 58.5
                                                  {376, 256, 16}}) {
    INFO(long_side);
    const double scale = static_cast<double>(long_side) / static_cast<double>(resized);
    const fl::crop_box wide = fl::resized_center_crop{}(375, long_side);
    CHECK(wide.left == Approx(static_cast<double>(begin) * scale));
    CHECK(wide.width == Approx(224 * scale));
    CHECK(wide.top == Approx(16 * 375.0 / 256));
    const fl::crop_box tall = fl::resized_center_crop{}(long_side, 375);
    CHECK(tall.top == Approx(static_cast<double>(begin) * scale));
    CHECK(tall.height == Approx(224 * scale));
    CHECK(tall.left == Approx(16 * 375.0 / 256));
  }
  // The short side can be odd too: 225 - 224 = 1 and 227 - 224 = 3, whose halves are rounded to 0 and 2.
  CHECK(fl::resized_center_crop{225, 224}(225, 225).top == 0);
  CHECK(fl::resized_center_crop{227, 224}(227, 227).left == Approx(2));
}

TEST_CASE("invalid limits and sides are refused") {
  for (const auto& crop : {fl::random_resized_crop{.scale = {0, 1}},
                           {.scale = {0.5, 0.4}},
                           {.ratio = {-1, 4.0 / 3}},
                           {.ratio = {2, 1}},
                           {.ratio = {3.0 / 4, NAN}}})
    CHECK(throws_saying<std::invalid_argument>("random_resized_crop: the limits of the",
                                               [&] { draw(crop, 10, 10, 1); }));
  CHECK_THROWS_AS((fl::resized_center_crop{100, 101}(500, 500)), std::invalid_argument);
  CHECK_THROWS_AS((fl::resized_center_crop{100, 0}(500, 500)), std::invalid_argument);
  CHECK_THROWS_AS((fl::resized_center_crop{}(0, 500)), std::invalid_argument);
  const auto minus_one = static_cast<std::size_t>(-1);
  CHECK(throws_saying<std::invalid_argument>("-1 pixels from a short side of 256",
                                             [&] { fl::resized_center_crop{.side = minus_one}(500, 500); }));
  CHECK(throws_saying<std::invalid_argument>("100 pixels from a short side of -1", [&] {
    fl::resized_center_crop{minus_one, 100}(500, 500);
  }));
}

TEST_CASE("same_crop chooses once, and refuses an image of another size") {
  int calls = 0;
  const fl::same_crop crop([&](std::size_t height, std::size_t width) {
    ++calls;
    return fl::crop_box{1, 2, static_cast<double>(height) / 2, static_cast<double>(width) / 2};
  });
  const fl::crop_box first = crop(10, 20);
  CHECK(first == fl::crop_box{1, 2, 5, 10});
  CHECK(crop(10, 20) == first);
  CHECK(calls == 1);
  CHECK(throws_saying<fl::image_error>("the first image has 10 x 20 pixels, this one 20 x 10",
                                       [&] { crop(20, 10); }));
  CHECK(throws_saying<fl::image_error>("this one 10 x 21", [&] { crop(10, 21); }));
  CHECK(crop(10, 20) == first);
}
