// SPDX-License-Identifier: MIT
#include <feedline/image/random_erasing.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

namespace fl = feedline;

namespace {

struct rectangle {
  std::size_t top = 0, left = 0, height = 0, width = 0;
  bool is_whole = true; // exactly its pixels are painted, in every channel
};

rectangle painted(const fl::random_erasing& erasing, std::size_t height, std::size_t width,
                  std::uint64_t key) {
  fl::tensor<float> image(fl::shape{3, height, width});
  std::fill(image.begin(), image.end(), 1.0f);
  fl::random_generator random(key);
  const auto view = chw_view(image);
  erasing(view, random);
  rectangle r{height, width};
  std::size_t bottom = 0, right = 0, count = 0;
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < width; ++x) {
      r.is_whole = r.is_whole && view(y, x, 0) == view(y, x, 1) && view(y, x, 0) == view(y, x, 2);
      if (view(y, x, 0) == 1) continue;
      r.is_whole = r.is_whole && view(y, x, 0) == erasing.value;
      ++count;
      r.top = std::min(r.top, y);
      r.left = std::min(r.left, x);
      bottom = std::max(bottom, y + 1);
      right = std::max(right, x + 1);
    }
  if (count == 0) return {};
  r.height = bottom - r.top;
  r.width = right - r.left;
  r.is_whole = r.is_whole && count == r.height * r.width;
  return r;
}

} // namespace

TEST_CASE("erased rectangles keep the probability and the limits of area and ratio") {
  constexpr std::size_t height = 60, width = 80;
  int erased = 0;
  double smallest = 1, largest = 0, flattest = 9, tallest = 0;
  bool whole = true;
  for (std::uint64_t key = 0; key < 4000; ++key) {
    const rectangle r = painted({.value = -2}, height, width, key);
    if (r.height == 0) continue;
    ++erased;
    whole = whole && r.is_whole;
    const double area = static_cast<double>(r.height * r.width) / (height * width);
    const double ratio = static_cast<double>(r.height) / static_cast<double>(r.width);
    smallest = std::min(smallest, area);
    largest = std::max(largest, area);
    flattest = std::min(flattest, ratio);
    tallest = std::max(tallest, ratio);
  }
  CHECK(whole);
  CHECK((erased > 1880 && erased < 2120)); // 2000, within 3.8 standard deviations
  CHECK((smallest > 0.018 && smallest < 0.025 && largest < 0.34 && largest > 0.31));
  CHECK((flattest > 0.26 && flattest < 0.34 && tallest < 3.8 && tallest > 2.9)); // sides are rounded
}

TEST_CASE("the erased rectangle depends only on the generator, and covers every position") {
  std::size_t top = 99, bottom = 0;
  for (std::uint64_t key = 0; key < 500; ++key) {
    const rectangle a = painted({.probability = 1}, 20, 20, key),
                    b = painted({.probability = 1}, 20, 20, key);
    CHECK((a.top == b.top && a.left == b.left && a.height == b.height && a.width == b.width));
    top = std::min(top, a.top);
    bottom = std::max(bottom, a.top + a.height);
  }
  CHECK((top == 0 && bottom == 20));
  CHECK(painted({.probability = 0}, 20, 20, 1).height == 0);
}

TEST_CASE("the value is clamped to the range of an integer type") {
  const auto check = []<class T>(T least, T most) {
    fl::tensor<T, 1, 20, 20> image;
    fl::random_generator random(1);
    const auto extremes_after = [&](float value) {
      std::fill(image.begin(), image.end(), T{7});
      fl::random_erasing{.probability = 1, .value = value}(chw_view(image), random);
      const auto [low, high] = std::minmax_element(image.begin(), image.end());
      return std::array{*low, *high};
    };
    CHECK(extremes_after(-1e30F)[0] == least);
    CHECK(extremes_after(1e30F)[1] == most);
    CHECK(extremes_after(std::numeric_limits<float>::quiet_NaN())[0] == least);
    CHECK(extremes_after(static_cast<float>(most))[1] == most); // which may round up beyond the range
  };
  check(std::uint8_t{0}, std::uint8_t{255});
  check(std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max());
}

TEST_CASE("if no rectangle fits, the image stays unchanged") {
  for (std::uint64_t key = 0; key < 100; ++key) {
    CHECK(painted({.probability = 1, .scale = {1, 1}}, 10, 10, key).height == 0);
    CHECK(painted({.probability = 1}, 1, 1, key).height == 0);
  }
}
