// SPDX-License-Identifier: MIT
#include <feedline/image/resize.hpp>

#include "support/catch.hpp"
#include "support/jpeg_writer.hpp"
#include "support/resampled.hpp"
#include "support/throws_saying.hpp"

#include <feedline/core/random.hpp>
#include <feedline/image/detail/weighted_rows.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <vector>

namespace fl = feedline;
using fl::test::noise;

namespace {

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

} // namespace

TEST_CASE("resizing matches its definition, a weighted sum over all pixels") {
  const auto [height, width] =
      GENERATE(table<std::size_t, std::size_t>({{1, 1}, {5, 40}, {23, 17}, {40, 3}}));
  const auto [to_height, to_width] =
      GENERATE(table<std::size_t, std::size_t>({{1, 1}, {7, 9}, {23, 17}, {16, 50}, {60, 2}}));
  const auto image = noise(height, width, 3);
  const auto result = fl::resize(image, to_height, to_width);
  REQUIRE(result.shape() == fl::shape{to_height, to_width, 3});
  const auto expected = fl::test::resampled(image, fl::whole_image(height, width), to_height, to_width);
  double largest = 0;
  for (std::size_t i = 0; i < result.size(); ++i)
    largest = std::max(largest, std::abs(expected[i] - result[i]));
  CHECK(largest < 0.55);
}

TEST_CASE("resizing to the same size or of a single colour changes nothing") {
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

TEST_CASE("part of an image is resized into any view, of any number of channels") {
  for (const std::size_t channels : {1u, 2u, 3u, 5u}) {
    const auto image = noise(30, 40, channels);
    const fl::crop_box box{4.5, 3, 20, 30.25, true};
    const auto expected = fl::test::resampled(image, box, 9, 13, fl::interpolation::bicubic);
    fl::tensor<float> planes(fl::shape{channels, 9, 13});
    fl::resize(fl::hwc_view(image), box, fl::chw_view(planes),
               {.interpolation = fl::interpolation::bicubic, .horizontal_flip = true});
    double largest = 0;
    for (std::size_t i = 0; i < expected.size(); ++i)
      largest = std::max(largest, std::abs(expected[i] - 255.0 * fl::chw_view(planes)(i / channels / 13,
                                                                                      12 - i / channels % 13,
                                                                                      i % channels)));
    CHECK(largest < 0.05);
  }
}

TEST_CASE("a tiny box, also at the border, yields the pixel that contains it") {
  const auto image = noise(10, 12, 3);
  const auto from = fl::hwc_view(image);
  for (const auto kind :
       {fl::interpolation::nearest, fl::interpolation::bilinear, fl::interpolation::bicubic})
    for (const double top : {0.0, 5.0, 9.999})
      for (const double length : {1e-3, 1e-15, 1e-20}) {
        if (top + length > 10) continue;
        fl::tensor<std::uint8_t, 2, 2, 3> pixels;
        fl::resize(from, {top, 3.5, length, 1e-9}, fl::hwc_view(pixels), {.interpolation = kind});
        for (std::size_t i = 0; i < pixels.size(); ++i)
          CHECK(pixels[i] == from(static_cast<std::size_t>(top), 3, i % 3));
      }
  fl::tensor<std::uint8_t, 2, 2, 3> pixels;
  CHECK_THROWS_AS(fl::resize(from, {10, 0, 1e-20, 1}, fl::hwc_view(pixels)), std::invalid_argument);
  CHECK_THROWS_AS(fl::resize(from, {0, 12, 1, 1e-16}, fl::hwc_view(pixels)), std::invalid_argument);
}

TEST_CASE("all machines compute the same sums") {
  constexpr std::size_t rows = 5, elements = 96;
  fl::random_generator random(7);
  std::vector<std::uint8_t> bytes(rows * elements);
  for (auto& b : bytes) b = static_cast<std::uint8_t>(random.below(256));
  std::vector<const std::uint8_t*> lines;
  for (std::size_t i = 0; i < rows; ++i) lines.push_back(bytes.data() + i * elements);
  for (std::size_t count = 1; count <= rows; ++count) {
    std::vector<std::int16_t> weights(16 * count), a(elements + 64), b(elements + 64);
    for (auto& w : weights) w = static_cast<std::int16_t>(static_cast<int>(random.below(40000)) - 15000);
    fl::detail::sum_rows(lines.data(), weights.data(), count, elements, a.data());
    fl::detail::sum_rows_plainly(lines.data(), weights.data(), count, elements, b.data());
    CHECK(a == b);
    const std::vector<std::uint32_t> first{0, 3, 11, 11, 2};
    std::vector<std::int16_t> groups(first.size() * count * fl::detail::weights_in_group);
    for (auto& w : groups) w = static_cast<std::int16_t>(static_cast<int>(random.below(4000)) - 1500);
    std::vector<std::int32_t> x(4 * first.size()), y(4 * first.size());
    fl::detail::sum_pixels(a.data(), first.data(), groups.data(), count, first.size(), x.data());
    fl::detail::sum_pixels_plainly(b.data(), first.data(), groups.data(), count, first.size(), y.data());
    CHECK(x == y);
  }
}

TEST_CASE("invalid images and boxes are refused") {
  CHECK_THROWS_AS(fl::resize(fl::tensor<std::uint8_t>(fl::shape{4, 4}), 2, 2), std::invalid_argument);
  CHECK_THROWS_AS(fl::resize(fl::tensor<std::uint8_t>(fl::shape{0, 4, 3}), 2, 2), std::invalid_argument);
  CHECK_THROWS_AS(fl::resize(noise(4, 4, 3), 0, 2), std::invalid_argument);
  CHECK_THROWS_AS(fl::resize(noise(4, 4, 3), 2, 0), std::invalid_argument);
  fl::tensor<float, 3, 4, 4> planes;
  const auto image = noise(4, 4, 1);
  CHECK_THROWS_AS(fl::resize(fl::hwc_view(image), fl::whole_image(4, 4), fl::chw_view(planes)),
                  std::invalid_argument);
  CHECK(fl::test::throws_saying<std::invalid_argument>("but the box begins at", [&] {
    fl::resize(fl::hwc_view(image), {0, 1, 4, 4}, fl::chw_view(planes));
  }));
}

TEST_CASE("alpha is resized like a colour and isn't normalized") {
  const auto image = noise(23, 30, 4);
  const fl::normalization colors{{0.1, 0.2, 0.3}, {0.5, 2, 3}};
  for (const bool flip : {false, true}) {
    fl::tensor<float> result(fl::shape{4, 11, 17}), one(fl::shape{1, 11, 17});
    fl::resize(fl::hwc_view(image), fl::whole_image(23, 30), chw_view(result),
               {.horizontal_flip = flip, .normalization = colors});
    for (std::size_t c = 0; c < 4; ++c) {
      fl::tensor<std::uint8_t> channel(fl::shape{23, 30, 1});
      for (std::size_t i = 0; i < channel.size(); ++i) channel[i] = image[4 * i + c];
      const fl::normalization its =
          c < 3 ? fl::normalization{{colors.mean[c]}, {colors.std[c], 1, 1}} : fl::normalization{};
      fl::resize(fl::hwc_view(std::as_const(channel)), fl::whole_image(23, 30), chw_view(one),
                 {.horizontal_flip = flip, .normalization = its});
      CHECK(std::equal(one.begin(), one.end(), result.at(c).begin()));
    }
  }
}
