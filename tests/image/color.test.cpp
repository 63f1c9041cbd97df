// SPDX-License-Identifier: MIT
#include <feedline/image/color.hpp>

#include "support/catch.hpp"
#include "support/throws_saying.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include <feedline/image/rand_augment.hpp>
#include <feedline/image/resize.hpp>

namespace fl = feedline;
using fl::test::throws_saying;

namespace {

using rgb = std::array<int, 3>;

/// Changes one pixel, as bytes and as floats that are rounded to bytes: the results must agree to a step.
template <class Change>
rgb changed(const rgb& pixel, Change change) {
  fl::tensor<std::uint8_t, 1, 1, 3> bytes;
  fl::tensor<float, 3, 1, 1> numbers;
  for (std::size_t c = 0; c < 3; ++c) {
    bytes[c] = static_cast<std::uint8_t>(pixel[c]);
    numbers[c] = static_cast<float>(pixel[c]) / 255;
  }
  change(hwc_view(bytes));
  change(chw_view(numbers));
  rgb result;
  for (std::size_t c = 0; c < 3; ++c) {
    result[c] = bytes[c];
    CHECK(std::abs(numbers[c] * 255 - static_cast<float>(bytes[c])) <= 1.001f);
  }
  return result;
}

fl::tensor<std::uint8_t> noise(std::size_t side) {
  fl::tensor<std::uint8_t> image(fl::shape{side, side, 3});
  fl::random_generator random(3);
  for (auto& v : image) v = static_cast<std::uint8_t>(50 + random.below(100));
  return image;
}

} // namespace

TEST_CASE("brightness, contrast and saturation are blends with black, the mean and gray") {
  CHECK(changed({100, 200, 50}, [](auto v) { fl::adjust_brightness(v, 1.5f); }) == rgb{150, 255, 75});
  CHECK(changed({100, 200, 50}, [](auto v) { fl::adjust_brightness(v, 0.0f); }) == rgb{0, 0, 0});
  // One pixel's luma is the mean: 0.299 · 100 + 0.587 · 200 + 0.114 · 50 = 153
  CHECK(changed({100, 200, 50}, [](auto v) { fl::adjust_contrast(v, 0.0f); }) == rgb{153, 153, 153});
  CHECK(changed({100, 200, 50}, [](auto v) { fl::adjust_contrast(v, 0.5f); }) == rgb{127, 177, 102});
  CHECK(changed({100, 200, 50}, [](auto v) { fl::adjust_saturation(v, 2.0f); }) == rgb{47, 247, 0});
  CHECK(changed({100, 200, 50}, [](auto v) { fl::to_grayscale(v); }) == rgb{153, 153, 153});
  CHECK(changed({100, 200, 50}, [](auto v) { fl::adjust_saturation(v, 1.0f); }) == rgb{100, 200, 50});
}

TEST_CASE("contrast refers to the mean of the whole image") {
  fl::tensor<float, 3, 1, 2> image;
  for (std::size_t i = 0; i < 6; ++i) image[i] = i % 2 == 0 ? 0.2f : 0.6f;
  fl::adjust_contrast(chw_view(image), 2);
  CHECK(image[0] == Approx(0.0f).margin(1e-6));
  CHECK(image[1] == Approx(0.8f));
}

TEST_CASE("hues rotate around the circle, and grays stay unchanged") {
  const auto turned = [](const rgb& pixel, float turn) {
    return changed(pixel, [&](auto v) { fl::adjust_hue(v, turn); });
  };
  CHECK(turned({255, 0, 0}, 1.0f / 3) == rgb{0, 255, 0});
  CHECK(turned({255, 0, 0}, -1.0f / 3) == rgb{0, 0, 255});
  CHECK(turned({255, 0, 0}, 0.5f) == rgb{0, 255, 255});
  CHECK(turned({200, 100, 50}, 0) == rgb{200, 100, 50});
  CHECK(turned({200, 100, 50}, 1.0f / 3) == rgb{50, 200, 100});
  CHECK(turned({50, 100, 200}, 1.0f / 6) == rgb{150, 50, 200});
  CHECK(turned({77, 77, 77}, 0.3f) == rgb{77, 77, 77});
}

TEST_CASE("images are inverted, solarized and posterized") {
  CHECK(changed({100, 200, 0}, [](auto v) { fl::invert(v); }) == rgb{155, 55, 255});
  CHECK(changed({100, 200, 128}, [](auto v) { fl::solarize(v, 0.5f); }) == rgb{100, 55, 127});
  CHECK(changed({100, 200, 255}, [](auto v) { fl::posterize(v, 2); }) == rgb{64, 192, 192});
  CHECK(changed({100, 200, 255}, [](auto v) { fl::posterize(v, 8); }) == rgb{100, 200, 255});
}

TEST_CASE("autocontrast stretches each channel, equalize spreads it") {
  auto image = noise(40);
  fl::autocontrast(hwc_view(image));
  CHECK((*std::min_element(image.begin(), image.end()) == 0 &&
         *std::max_element(image.begin(), image.end()) == 255));
  // Pillow's lookup table for these counts, by hand: (1,000 pixels - 250 of the highest) / 255, so steps of 2
  fl::tensor<std::uint8_t> bands(fl::shape{25, 40, 3});
  for (std::size_t i = 0; i < bands.size(); ++i) bands[i] = static_cast<std::uint8_t>(100 + i / 750);
  fl::equalize(hwc_view(bands));
  CHECK(bands[0] == 0);
  CHECK(bands[750] == 125);
  CHECK(bands[1500] == 250);
  CHECK(bands[2250] == 255);
  CHECK(changed({9, 99, 200}, [](auto v) { fl::equalize(v); }) == rgb{9, 99, 200});
  CHECK(changed({9, 99, 200}, [](auto v) { fl::autocontrast(v); }) == rgb{9, 99, 200});
}

TEST_CASE("color jitter depends only on the generator, stays within its limits, and applies its steps in any "
          "order") {
  const auto drawn = [](const fl::color_jitter& jitter, std::uint64_t key) {
    auto image = noise(4);
    fl::random_generator random(key);
    jitter(hwc_view(image), random);
    return std::vector<std::uint8_t>(image.begin(), image.end());
  };
  const fl::color_jitter all{.brightness = 0.4f, .contrast = 0.4f, .saturation = 0.4f, .hue = 0.1f};
  CHECK(drawn(all, 1) == drawn(all, 1));
  CHECK(drawn(all, 1) != drawn(all, 2));
  const auto original = noise(4);
  CHECK(drawn({}, 1) == std::vector<std::uint8_t>(original.begin(), original.end()));
  double low = 2, high = 0;
  for (std::uint64_t key = 0; key < 2000; ++key) {
    fl::tensor<float, 3, 1, 1> image;
    image[0] = image[1] = image[2] = 0.5f;
    fl::random_generator random(key);
    fl::color_jitter{.brightness = 0.4f}(chw_view(image), random);
    low = std::min(low, image[0] / 0.5);
    high = std::max(high, image[0] / 0.5);
  }
  CHECK((low >= 0.6 - 1e-6 && low < 0.61 && high <= 1.4 + 1e-6 && high > 1.39));
}

TEST_CASE("an image that was normalized isn't adjusted, nor normalized twice") {
  const auto image = noise(8);
  fl::random_generator random(1);
  const fl::normalization centered{{0.5, 0.5, 0.5}, {0.25, 0.25, 0.25}};
  const auto refuses = [&](const auto& change, const fl::normalization& n) {
    fl::tensor<float, 3, 8, 8> pixels;
    fl::resize(fl::hwc_view(image), fl::whole_image(8, 8), chw_view(pixels), {.normalization = n});
    pixels[5] = static_cast<float>((0 - n.mean[0]) / n.std[0]); // a black one
    return throws_saying<std::invalid_argument>("it was normalized before",
                                                [&] { change(chw_view(pixels)); });
  };
  for (const auto& n : {fl::imagenet_normalization, centered}) {
    CHECK(refuses([&](auto v) { fl::color_jitter{.brightness = 0.4f, .contrast = 0.4f}(v, random); }, n));
    CHECK(refuses([&](auto v) { fl::color_jitter{.hue = 0.1f}(v, random); }, n));
    CHECK(refuses([&](auto v) { fl::rand_augment{.changes = 0}(v, random); }, n));
    CHECK(refuses([](auto v) { fl::adjust_contrast(v, 2); }, n));
    CHECK(refuses([](auto v) { fl::adjust_saturation(v, 2); }, n));
    CHECK(refuses([](auto v) { fl::to_grayscale(v); }, n));
    CHECK(refuses([](auto v) { fl::invert(v); }, n));
    CHECK(refuses([](auto v) { fl::solarize(v, 0.5f); }, n));
    CHECK(refuses([](auto v) { fl::posterize(v, 4); }, n));
    CHECK(refuses([](auto v) { fl::autocontrast(v); }, n));
    CHECK(refuses([](auto v) { fl::equalize(v); }, n));
    CHECK(refuses([](auto v) { fl::normalize(v, fl::imagenet_normalization); }, n));
  }
  // What bicubic interpolation adds at edges is accepted, and clamped.
  fl::tensor<float, 3, 1, 1> edge;
  edge[0] = -0.2f, edge[1] = 1.2f, edge[2] = 0.5f;
  fl::adjust_brightness(chw_view(edge), 1);
  CHECK((edge[0] == 0 && edge[1] == 1 && edge[2] == 0.5f));
}

TEST_CASE(
    "an image is normalized after decoding as while it is decoded, also after its colours were adjusted") {
  const auto image = noise(24);
  const auto n = fl::imagenet_normalization;
  const auto differs = [](const auto& a, const auto& b, float most) {
    for (std::size_t i = 0; i < a.size(); ++i)
      if (std::abs(static_cast<float>(a[i]) - static_cast<float>(b[i])) > most) return true;
    return false;
  };
  fl::tensor<float, 3, 9, 9> pixels, wanted;
  const auto resize_to = [&](const auto& view, const fl::resize_options& how) {
    fl::resize(fl::hwc_view(image), fl::whole_image(24, 24), view, how);
  };
  resize_to(chw_view(pixels), {});
  resize_to(chw_view(wanted), {.normalization = n});
  fl::normalize(chw_view(pixels), n);
  CHECK_FALSE(differs(pixels, wanted, 1e-5f));

  // Brightness is a factor of the pixels from 0 to 1.
  resize_to(chw_view(pixels), {});
  fl::adjust_brightness(chw_view(pixels), 0.5f);
  fl::normalize(chw_view(pixels), n);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::size_t c = i / 81;
    const double before = wanted[i] * n.std[c] + n.mean[c];
    wanted[i] = static_cast<float>((before / 2 - n.mean[c]) / n.std[c]);
  }
  CHECK_FALSE(differs(pixels, wanted, 1e-5f));

  fl::tensor<fl::bfloat16, 3, 9, 9> half;
  resize_to(chw_view(half), {});
  fl::normalize(chw_view(half), n);
  resize_to(chw_view(wanted), {.normalization = n});
  CHECK_FALSE(differs(half, wanted, 0.03f));

  fl::tensor<float, 2, 1, 4> with_alpha; // [height, width, channels]
  std::fill(with_alpha.begin(), with_alpha.end(), 0.5f);
  fl::normalize(hwc_view(with_alpha), {{0.5, 0.25, 0}, {1, 0.5, 2}});
  for (std::size_t i = 0; i < 8; ++i) CHECK(with_alpha[i] == std::array{0.0f, 0.5f, 0.25f, 0.5f}[i % 4]);
  fl::tensor<float, 2, 2, 1> gray;
  std::fill(gray.begin(), gray.end(), 0.75f);
  fl::normalize(hwc_view(gray), {{0.5, 0, 0}, {0.5, 1, 1}});
  CHECK(gray[3] == 0.5f);
}

TEST_CASE("a wrong normalization is refused") {
  fl::tensor<float, 3, 2, 2> image;
  std::fill(image.begin(), image.end(), 0.5f);
  CHECK_THROWS_AS(fl::normalize(chw_view(image), {{2, 0, 0}, {1, 1, 1}}), std::invalid_argument);
  CHECK_THROWS_AS(fl::normalize(chw_view(image), {{0, 0, 0}, {1, 0, 1}}), std::invalid_argument);
  CHECK(image[0] == 0.5f);
  fl::tensor<float, 2, 2, 2> two;
  CHECK_THROWS_AS(fl::normalize(chw_view(two), {}), std::invalid_argument);
}

TEST_CASE("NaN pixels do no harm") {
  fl::tensor<float, 3, 2, 2> image;
  std::fill(image.begin(), image.end(), std::nanf(""));
  fl::equalize(chw_view(image));
  fl::posterize(chw_view(image), 3);
  fl::autocontrast(chw_view(image));
  SUCCEED();
}

TEST_CASE("color adjustments refuse images without three channels") {
  fl::tensor<float, 1, 4, 4> gray;
  CHECK_THROWS_AS(fl::invert(chw_view(gray)), std::invalid_argument);
}
