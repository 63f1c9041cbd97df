// SPDX-License-Identifier: MIT
// Parts of JPEGs, decoded alone and resized, compared with the same parts of the whole image.
#include <feedline/image/jpeg_decoder.hpp>

#include "support/catch.hpp"
#include "support/image_crops.hpp"
#include "support/jpeg_writer.hpp"
#include "support/resampled.hpp"
#include "support/rounds.hpp"
#include "support/test_data.hpp"
#include "support/throws_saying.hpp"

#include <feedline/core/random.hpp>
#include <feedline/source/tar.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace fl = feedline;
using fl::test::gives_pixels_of;
using fl::test::gradient;
using fl::test::has_pixels_of;
using fl::test::largest_difference;
using fl::test::noise;
using fl::test::random_box;
using fl::test::resampled;
using fl::test::takes;
using fl::test::throws_saying;
using fl::test::whole;
using fl::test::write_jpeg;

namespace {

// A gradient from top to bottom in red and from left to right in green, which shows a shift by half a pixel
// and its direction.
fl::tensor<std::uint8_t> waves(std::size_t height, std::size_t width) {
  fl::tensor<std::uint8_t> image(fl::shape{height, width, 3});
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < width; ++x)
      for (const std::size_t c : {0u, 1u, 2u}) {
        const double along = c == 0 ? static_cast<double>(y) : c == 1 ? static_cast<double>(x) : 0;
        hwc_view(image)(y, x, c) = static_cast<std::uint8_t>(128 + 100 * std::sin(along / 30));
      }
  return image;
}

std::size_t whole_part(double length, std::size_t shrunk) {
  return static_cast<std::size_t>(length) / shrunk;
}

// The file with only its first scans, and an end marker after them.
std::vector<std::byte> with_scans(const std::vector<std::byte>& file, std::size_t count) {
  for (std::size_t i = 0; i + 1 < file.size(); ++i) {
    const bool begins_scan = file[i] == std::byte{0xff} && file[i + 1] == std::byte{0xda};
    if (!begins_scan || count-- > 0) continue;
    std::vector<std::byte> result(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(i));
    result.insert(result.end(), {std::byte{0xff}, std::byte{0xd9}});
    return result;
  }
  return file;
}

} // namespace

TEST_CASE("a crop at its own size has the pixels of the whole image, for every sampling and kind of file") {
  fl::jpeg_decoder decoder;
  fl::random_generator random(1);
  const auto image = noise(61, 83, 3);
  for (int across = 1; across <= 4; ++across)
    for (int down = 1; down <= 4; ++down) {
      if (across * down > 8) continue; // more blocks than the format allows
      for (const bool progressive : {false, true})
        for (const bool interleaved : {false, true}) {
          const auto file = write_jpeg(image, {.across = across,
                                               .down = down,
                                               .progressive = progressive,
                                               .interleaved = interleaved || progressive});
          const auto all = decoder.decode(file);
          INFO(across << " x " << down << (progressive ? ", progressive" : "")
                      << (interleaved ? ", interleaved" : ""));
          for (int i = 0; i < 20; ++i) {
            const auto box = random_box(61, 83, random);
            INFO(box.top << ", " << box.left << ": " << box.height << " x " << box.width);
            REQUIRE(gives_pixels_of(decoder, file, all, box, {}));
          }
        }
    }
}

TEST_CASE("a crop of an incomplete progressive image has the pixels of the whole image") {
  fl::jpeg_decoder decoder;
  fl::random_generator random(8);
  const int sampling = GENERATE(1, 2);
  const bool is_gray = GENERATE(false, true);
  const fl::test::jpeg_recipe recipe{.from = is_gray ? JCS_GRAYSCALE : JCS_RGB,
                                     .stored = is_gray ? JCS_GRAYSCALE : JCS_YCbCr,
                                     .across = sampling,
                                     .down = sampling,
                                     .progressive = true};
  const auto file = write_jpeg(gradient(150, 170, is_gray ? 1 : 3), recipe);
  const std::size_t scans = is_gray ? 6 : 10;
  const auto complete = decoder.decode(file);
  REQUIRE(largest_difference(decoder.decode(with_scans(file, scans)), complete) == 0);
  REQUIRE(largest_difference(decoder.decode(with_scans(file, scans - 1)), complete) > 0);
  for (std::size_t count = 1; count <= scans; ++count) {
    const auto part = with_scans(file, count);
    const auto all = decoder.decode(part);
    for (int i = 0; i < 20; ++i) {
      const auto box = random_box(150, 170, random);
      INFO(count << " scans; " << box.top << ", " << box.left << ": " << box.height << " x " << box.width);
      REQUIRE(gives_pixels_of(decoder, part, all, box, {}));
    }
  }
}

TEST_CASE("crops are correct for every colour space, in gray, flipped, and for every orientation") {
  fl::jpeg_decoder decoder;
  fl::random_generator random(2);
  const auto [stored, from, channels] = GENERATE(from_range(fl::test::color_recipes));
  for (const auto color : {fl::pixel_color::rgb, fl::pixel_color::gray})
    for (int orientation = 1; orientation <= 8; ++orientation)
      for (const bool apply : {false, true}) {
        const auto file =
            write_jpeg(noise(47, 70, channels),
                       {.from = from, .stored = stored, .exif = fl::test::exif_payload(orientation)});
        const fl::jpeg_options options{.color = color, .apply_orientation = apply};
        const auto all = decoder.decode(file, options);
        for (int i = 0; i < 4; ++i) {
          const auto box = random_box(all.shape()[0], all.shape()[1], random);
          REQUIRE(gives_pixels_of(decoder, file, all, box, options, i % 2 == 0));
        }
      }
}

TEST_CASE("a resized crop is computed from the pixels of the whole image as defined") {
  fl::jpeg_decoder decoder;
  fl::random_generator random(3);
  const auto kind =
      GENERATE(fl::interpolation::nearest, fl::interpolation::bilinear, fl::interpolation::bicubic);
  const bool antialias = GENERATE(false, true);
  const bool sample_outside = GENERATE(false, true);
  const auto file = write_jpeg(noise(90, 75, 3));
  const auto all = decoder.decode(file);
  for (int i = 0; i < 12; ++i) {
    auto box = random_box(90, 75, random);
    if (i % 2 == 0) box = {box.top + 0.3, box.left + 0.6, box.height - 0.7, box.width - 0.9, false};
    box.sample_outside = sample_outside;
    fl::tensor<std::uint8_t> part(fl::shape{1 + random.below(60), 1 + random.below(60), 3});
    decoder.decode_crop(file, takes(box), hwc_view(part), {.interpolation = kind, .antialias = antialias},
                        {.scaled_decoding = false});
    const auto expected = resampled(all, box, part.shape()[0], part.shape()[1], kind, antialias);
    double largest = 0;
    for (std::size_t k = 0; k < part.size(); ++k)
      largest = std::max(largest, std::abs(std::clamp(expected[k], 0.0, 255.0) - part[k]));
    INFO(box.top << ", " << box.left << ": " << box.height << " x " << box.width << " to " << part.shape()[0]
                 << " x " << part.shape()[1]);
    CHECK(largest < 0.55); // rounding to bytes loses half a level
  }
}

TEST_CASE("crops decoded at a smaller size aren't shifted") {
  fl::jpeg_decoder decoder;
  const bool is_progressive = GENERATE(false, true);
  const int sampling = GENERATE(1, 2);
  // Not multiples of a block or of 8: the last block decodes to a part of itself.
  const std::size_t height = 501, width = 643;
  const auto file =
      write_jpeg(waves(height, width), {.across = sampling, .down = sampling, .progressive = is_progressive});
  const auto all = decoder.decode(file);
  for (const std::size_t shrunk : {2u, 3u, 4u, 7u, 8u, 11u}) {
    const fl::crop_box all_of_it = fl::whole_image(height, width);
    for (fl::crop_box box : {all_of_it,
                             {0, 0, 301, 397},
                             {200, 246, 301, 397},
                             {37, 101, 352, 440},
                             {36.3, 100.6, 330.4, 401.7}})
      for (const bool sample_outside : {false, true}) {
        box.sample_outside = sample_outside;
        const std::size_t h = whole_part(box.height, shrunk), w = whole_part(box.width, shrunk);
        const auto expected = resampled(all, box, h, w);
        fl::tensor<float> part(fl::shape{3, h, w});
        decoder.decode_crop(file, takes(box), chw_view(part));
        for (const std::size_t c : {0u, 1u}) {
          double sum = 0;
          for (std::size_t i = c; i < expected.size(); i += 3)
            sum += std::abs(expected[i] - 255.0 * chw_view(part)(i / 3 / w, i / 3 % w, c));
          const double mean = sum / static_cast<double>(h * w);
          INFO(box.top << ", " << box.left << ": " << box.height << " x " << box.width << " to " << h << " x "
                       << w << ", channel " << c);
          CHECK(mean < 0.85); // half a pixel makes it 1 or more
        }
      }
  }
}

TEST_CASE(
    "a crop decoded at a smaller size has the pixels of the whole image at that size, for every sampling") {
  fl::jpeg_decoder decoder;
  fl::random_generator random(9);
  constexpr std::size_t height = 160, width = 208;
  const auto image = noise(height, width, 3);
  for (int across = 1; across <= 4; ++across)
    for (int down = 1; down <= 4; ++down) {
      if (across * down > 8) continue; // more blocks than the format allows
      const auto file = write_jpeg(image, {.across = across, .down = down});
      for (const std::size_t shrink : {2u, 4u, 8u}) {
        fl::tensor<std::uint8_t> all(fl::shape{height / shrink, width / shrink, 3});
        decoder.decode_crop(file, fl::whole_image, hwc_view(all));
        for (int i = 0; i < 10; ++i) {
          const auto box = random_box(height / shrink, width / shrink, random);
          const auto by = static_cast<double>(shrink);
          fl::tensor<std::uint8_t> part(fl::shape{whole(box.height), whole(box.width), 3});
          decoder.decode_crop(file, takes({by * box.top, by * box.left, by * box.height, by * box.width}),
                              hwc_view(part));
          INFO(across << " x " << down << ", shrunk by " << shrink << ", " << box.top << ", " << box.left
                      << ": " << box.height << " x " << box.width);
          REQUIRE(has_pixels_of(part, all, box));
        }
      }
    }
}

TEST_CASE("an image is decoded at a smaller size only if that is enough, and the result hardly differs") {
  fl::jpeg_decoder decoder;
  const auto file = write_jpeg(noise(200, 240, 3));
  const auto makes_a_difference = [&](std::size_t height, std::size_t width, const fl::resize_options& how) {
    fl::tensor<std::uint8_t> a(fl::shape{height, width, 3}), b(a.shape());
    decoder.decode_crop(file, fl::whole_image, hwc_view(a), how);
    decoder.decode_crop(file, fl::whole_image, hwc_view(b), how, {.scaled_decoding = false});
    return largest_difference(a, b) > 0;
  };
  CHECK(makes_a_difference(100, 120, {}));
  CHECK(makes_a_difference(100, 120, {.interpolation = fl::interpolation::bicubic}));
  CHECK_FALSE(makes_a_difference(101, 120, {}));
  CHECK_FALSE(makes_a_difference(100, 121, {}));
  CHECK_FALSE(makes_a_difference(25, 30, {.antialias = false}));
  CHECK_FALSE(makes_a_difference(25, 30, {.interpolation = fl::interpolation::nearest}));
}

TEST_CASE("resized crops of photographs are close to those of the whole image", "[shared]") {
  const auto folder = fl::test::test_data("photos");
  if (!folder) return;
  fl::jpeg_decoder decoder;
  fl::random_generator random(4);
  fl::tar_samples photos(*folder + "/*.tar");
  double worst = 0, worst_smaller = 0, sum_smaller = 0;
  std::size_t count = 0, smaller = 0;
  for (int number = 0; const auto photo = photos.next(); ++number) {
    if (number % fl::test::place_step != 0) continue;
    const auto all = decoder.decode((*photo)["jpg"]);
    const bool trains = ++count % 2 == 0;
    const auto box = trains ? fl::random_resized_crop{}(all.shape()[0], all.shape()[1], random)
                            : fl::resized_center_crop{}(all.shape()[0], all.shape()[1]);
    const std::size_t side = trains ? 112 : 224; // so that many are decoded at a smaller size
    const auto expected = resampled(all, box, side, side, fl::interpolation::bilinear, true);
    fl::tensor<float> part(fl::shape{3, side, side});
    const auto difference = [&](bool scaled_decoding) { // mean, of 255
      decoder.decode_crop((*photo)["jpg"], takes(box), chw_view(part), {},
                          {.scaled_decoding = scaled_decoding});
      double sum = 0;
      for (std::size_t i = 0; i < expected.size(); ++i)
        sum += std::abs(expected[i] - 255.0 * chw_view(part)(i / 3 / side, i / 3 % side, i % 3));
      return sum / static_cast<double>(expected.size());
    };
    worst = std::max(worst, difference(false));
    if (std::min(box.height, box.width) < 2 * static_cast<double>(side)) continue;
    ++smaller;
    const double d = difference(true);
    sum_smaller += d;
    worst_smaller = std::max(worst_smaller, d);
  }
  const double mean_smaller = sum_smaller / static_cast<double>(smaller);
  INFO(count << " photos: mean differences up to " << worst << " of 255; " << smaller
             << " decoded smaller: " << mean_smaller << ", up to " << worst_smaller);
  CHECK(count > 300 / fl::test::place_step);
  CHECK(smaller > 50 / fl::test::place_step);
  CHECK(worst < 0.1);
  CHECK(mean_smaller < 2);
  CHECK(worst_smaller < 4);
}

TEST_CASE("pixels are normalized, in planes or interleaved") {
  fl::jpeg_decoder decoder;
  const auto file = write_jpeg(gradient(40, 50, 3));
  const auto all = decoder.decode(file);
  const fl::normalization& n = fl::imagenet_normalization;
  fl::tensor<float, 3, 40, 50> planes;
  fl::tensor<float, 40, 50, 3> pixels;
  const auto everything = [](std::size_t h, std::size_t w) { return fl::whole_image(h, w); };
  decoder.decode_crop(file, everything, chw_view(planes), {.normalization = n});
  decoder.decode_crop(file, everything, hwc_view(pixels), {.normalization = n});
  bool right = true;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double expected = (all[i] / 255.0 - n.mean[i % 3]) / n.std[i % 3];
    right = right && std::abs(pixels[i] - expected) < 1e-6;
    right = right && pixels[i] == chw_view(planes)(i / 150, i / 3 % 50, i % 3);
  }
  CHECK(right);
  fl::tensor<fl::float16, 3, 40, 50> halves;
  fl::tensor<fl::bfloat16, 40, 50, 3> others;
  decoder.decode_crop(file, everything, chw_view(halves), {.normalization = n});
  decoder.decode_crop(file, everything, hwc_view(others), {.normalization = n});
  bool same = true;
  for (std::size_t i = 0; i < all.size(); ++i)
    same = same && halves[i] == fl::float16(planes[i]) && others[i] == fl::bfloat16(pixels[i]);
  CHECK(same);
  decoder.decode_crop(file, everything, chw_view(planes));
  CHECK(chw_view(planes)(7, 9, 1) == Approx(hwc_view(all)(7, 9, 1) / 255.0));
  CHECK_THROWS_AS(
      decoder.decode_crop(file, everything, chw_view(planes), {.normalization = {.mean = {2, 0, 0}}}),
      std::invalid_argument);
  CHECK_THROWS_AS(
      decoder.decode_crop(file, everything, chw_view(planes), {.normalization = {.std = {1, 0, 1}}}),
      std::invalid_argument);
}

TEST_CASE("a box outside the image and a view that doesn't fit are refused") {
  fl::jpeg_decoder decoder;
  const auto file = write_jpeg(gradient(30, 20, 3));
  fl::tensor<std::uint8_t, 8, 8, 3> pixels;
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (const fl::crop_box& box : {fl::crop_box{0, 0, 31, 20},
                                  {0, 0, 30, 21},
                                  {-1, 0, 5, 5},
                                  {0, -0.1, 5, 5},
                                  {3, 3, 0, 5},
                                  {3, 3, 5, 0},
                                  {3, 3, 5, -2},
                                  {30, 20, 1, 1},
                                  {nan, 0, 5, 5},
                                  {0, 0, nan, 5},
                                  {0, 0, 1e300, 5}})
    CHECK(throws_saying<std::invalid_argument>(
        "[30, 20, 3], but the box", [&] { decoder.decode_crop(file, takes(box), hwc_view(pixels)); }));
  const auto box = takes({0, 0, 30, 20});
  CHECK(throws_saying<std::invalid_argument>("[8, 8, 3]", [&] {
    decoder.decode_crop(file, box, hwc_view(pixels), {}, {.color = fl::pixel_color::gray});
  }));
  CHECK_THROWS_AS(decoder.decode_crop(file, box, fl::image_view<float>{}), std::invalid_argument);
  CHECK_NOTHROW(decoder.decode_crop(file, box, hwc_view(pixels)));
}

TEST_CASE("damage before or in the crop is an error, and damage after it isn't read") {
  fl::jpeg_decoder decoder;
  const auto file = write_jpeg(noise(160, 64, 3));
  const auto cut = std::span(file).first(file.size() / 2);
  fl::tensor<std::uint8_t, 32, 32, 3> pixels;
  const auto view = hwc_view(pixels);
  CHECK_NOTHROW(decoder.decode_crop(cut, takes({10, 10, 32, 32}), view));
  CHECK_THROWS_AS(decoder.decode_crop(cut, takes({100, 10, 32, 32}), view), fl::jpeg_error);
  CHECK_THROWS_AS(decoder.decode_crop(cut, takes({0, 0, 160, 64}), view), fl::jpeg_error);
  const fl::jpeg_options keeping{.on_corrupt = fl::on_corrupt::keep};
  CHECK_NOTHROW(decoder.decode_crop(cut, takes({100, 10, 32, 32}), view, {}, keeping));
  CHECK(decoder.warnings() > 0);
  CHECK(gives_pixels_of(decoder, file, decoder.decode(file), {100, 10, 32, 32}, {}));
}

TEST_CASE("the decoder of the thread does the same") {
  const auto file = write_jpeg(gradient(64, 64, 3));
  fl::tensor<float, 3, 16, 16> a, b;
  fl::decode_jpeg_crop(file, fl::resized_center_crop{32, 16}, chw_view(a));
  fl::jpeg_decoder().decode_crop(file, fl::resized_center_crop{32, 16}, chw_view(b));
  CHECK(std::equal(a.begin(), a.end(), b.begin()));
}
