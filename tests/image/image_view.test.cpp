// SPDX-License-Identifier: MIT
#include <feedline/image/image_view.hpp>

#include "support/catch.hpp"

#include <numeric>
#include <vector>

namespace fl = feedline;

namespace {

fl::tensor<int> counted(const fl::shape& shape) {
  fl::tensor<int> t(shape);
  std::iota(t.begin(), t.end(), 0);
  return t;
}

} // namespace

TEST_CASE("views find pixels in planes and in interleaved images") {
  auto planes = counted({3, 4, 5});
  const auto chw = fl::chw_view(planes);
  CHECK((chw.height == 4 && chw.width == 5 && chw.channels == 3));
  CHECK(chw(2, 3, 1) == 1 * 20 + 2 * 5 + 3);
  chw(0, 0, 2) = -1;
  CHECK(planes[40] == -1);
  const auto pixels = counted({4, 5, 3});
  const fl::image_view<const int> hwc = fl::hwc_view(pixels);
  CHECK((hwc.height == 4 && hwc.width == 5 && hwc.channels == 3));
  CHECK(hwc(2, 3, 1) == (2 * 5 + 3) * 3 + 1);
  CHECK(hwc.channel(2)(2, 3, 0) == hwc(2, 3, 2));
}

TEST_CASE("views are mirrored, flipped and transposed without moving pixels") {
  auto t = counted({2, 3, 4});
  const auto v = fl::chw_view(t);
  for (std::size_t y = 0; y < 3; ++y)
    for (std::size_t x = 0; x < 4; ++x)
      for (std::size_t c = 0; c < 2; ++c) {
        CHECK(v.mirrored()(y, 3 - x, c) == v(y, x, c));
        CHECK(v.upside_down()(2 - y, x, c) == v(y, x, c));
        CHECK(v.transposed()(x, y, c) == v(y, x, c));
        CHECK(v.mirrored().upside_down().transposed()(3 - x, 2 - y, c) == v(y, x, c));
      }
}

TEST_CASE("a wrong number of elements or dimensions is refused") {
  std::vector<float> elements(60);
  CHECK(fl::chw_view(std::span(elements), 3, 4, 5)(3, 4, 2) == 0);
  CHECK_THROWS_AS(fl::chw_view(std::span(elements), 3, 4, 4), std::invalid_argument);
  CHECK_THROWS_AS(fl::hwc_view(std::span(elements), 4, 5, 4), std::invalid_argument);
  auto flat = counted({4, 5});
  CHECK_THROWS_AS(fl::chw_view(flat), std::invalid_argument);
  CHECK_THROWS_AS(fl::hwc_view(flat), std::invalid_argument);
}
