// SPDX-License-Identifier: MIT
#include <feedline/image/affine.hpp>

#include "support/catch.hpp"

#include <vector>

namespace fl = feedline;

namespace {

std::vector<int> transformed(const fl::affine_map& map, std::size_t height = 3, std::size_t width = 3) {
  fl::tensor<int> image(fl::shape{1, height, width});
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<int>(i) + 1;
  fl::transform(chw_view(image), map);
  return {image.begin(), image.end()};
}

} // namespace

TEST_CASE("images are rotated and sheared about their center, and shifted") {
  CHECK(transformed({}) == std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9});
  CHECK(transformed(fl::affine_map::rotation(90)) == std::vector<int>{3, 6, 9, 2, 5, 8, 1, 4, 7});
  CHECK(transformed(fl::affine_map::rotation(180)) == std::vector<int>{9, 8, 7, 6, 5, 4, 3, 2, 1});
  CHECK(transformed(fl::affine_map::translation(1, 0)) == std::vector<int>{0, 1, 2, 0, 4, 5, 0, 7, 8});
  CHECK(transformed(fl::affine_map::translation(0, -2)) == std::vector<int>{7, 8, 9, 0, 0, 0, 0, 0, 0});
  CHECK(transformed(fl::affine_map::shear(1, 0)) == std::vector<int>{0, 1, 2, 4, 5, 6, 8, 9, 0});
  CHECK(transformed(fl::affine_map::shear(0, 1)) == std::vector<int>{0, 2, 6, 1, 5, 9, 4, 8, 0});
}

TEST_CASE("pixels from outside the image are filled, in every channel") {
  fl::tensor<float, 2, 2, 3> pixels;
  for (auto& p : pixels) p = 5;
  fl::transform(hwc_view(pixels), fl::affine_map::translation(100, 0), 7.0f);
  for (const float p : pixels) CHECK(p == 7);
}
