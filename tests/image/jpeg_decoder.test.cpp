// SPDX-License-Identifier: MIT
#include <feedline/image/jpeg_decoder.hpp>

#include "support/catch.hpp"
#include "support/jpeg_writer.hpp"
#include "support/throws_saying.hpp"

#include <cstdlib>
#include <thread>
#include <type_traits>

namespace fl = feedline;
using fl::test::gradient;
using fl::test::largest_difference;
using fl::test::throws_saying;
using fl::test::write_jpeg;

static_assert(std::is_base_of_v<std::runtime_error, fl::jpeg_error>);
static_assert(!std::is_copy_constructible_v<fl::jpeg_decoder> &&
              !std::is_move_constructible_v<fl::jpeg_decoder>);
static_assert(std::is_trivially_copyable_v<fl::jpeg_options>);

namespace {

constexpr fl::jpeg_options to_gray{.color = fl::pixel_color::gray};
constexpr fl::jpeg_options keeping{.on_corrupt = fl::on_corrupt::keep};

int luma(const std::uint8_t* rgb) {
  return static_cast<int>(0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] + 0.5);
}

fl::tensor<std::uint8_t> gray_of(const fl::tensor<std::uint8_t>& rgb) {
  fl::tensor<std::uint8_t> gray(fl::shape{rgb.shape()[0], rgb.shape()[1], 1});
  for (std::size_t i = 0; i < gray.size(); ++i) gray[i] = static_cast<std::uint8_t>(luma(&rgb[3 * i]));
  return gray;
}

// CMYK as Adobe stores it: 255 is no ink.
fl::tensor<std::uint8_t> rgb_of_cmyk(const fl::tensor<std::uint8_t>& cmyk) {
  fl::tensor<std::uint8_t> rgb(fl::shape{cmyk.shape()[0], cmyk.shape()[1], 3});
  for (std::size_t i = 0; i < rgb.size(); ++i)
    rgb[i] = static_cast<std::uint8_t>(cmyk[i / 3 * 4 + i % 3] * cmyk[i / 3 * 4 + 3] / 255.0 + 0.5);
  return rgb;
}

} // namespace

TEST_CASE("a colour JPEG decodes to rows of red, green and blue") {
  const auto image = gradient(45, 70, 3);
  const auto decoded = fl::decode_jpeg(write_jpeg(image));
  CHECK(decoded.shape() == fl::shape{45, 70, 3});
  CHECK(largest_difference(decoded, image) <= 3);
}

TEST_CASE("a colour JPEG decodes to gray as its luma") {
  const auto image = gradient(45, 70, 3);
  const auto decoded = fl::decode_jpeg(write_jpeg(image), to_gray);
  CHECK(decoded.shape() == fl::shape{45, 70, 1});
  CHECK(largest_difference(decoded, gray_of(image)) <= 3);
}

TEST_CASE("a gray JPEG decodes to gray, and to RGB with equal channels") {
  const auto image = gradient(33, 17, 1);
  const auto file = write_jpeg(image, {.from = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE});
  const auto gray = fl::decode_jpeg(file, to_gray);
  CHECK(largest_difference(gray, image) <= 3);
  const auto rgb = fl::decode_jpeg(file);
  REQUIRE(rgb.shape() == fl::shape{33, 17, 3});
  bool equal = true;
  for (std::size_t i = 0; i < rgb.size(); ++i) equal = equal && rgb[i] == gray[i / 3];
  CHECK(equal);
}

TEST_CASE("a JPEG that stores RGB decodes to RGB and to gray") {
  const auto image = gradient(40, 41, 3);
  const auto file = write_jpeg(image, {.stored = JCS_RGB});
  const auto rgb = fl::decode_jpeg(file);
  CHECK(largest_difference(rgb, image) <= 3);
  CHECK(largest_difference(fl::decode_jpeg(file, to_gray), gray_of(rgb)) <= 1);
}

TEST_CASE("CMYK and YCCK decode as Adobe stores them, with and without Adobe's marker") {
  const auto image = gradient(40, 41, 4);
  const J_COLOR_SPACE stored = GENERATE(JCS_CMYK, JCS_YCCK);
  const bool marker = GENERATE(true, false);
  if (stored == JCS_YCCK && !marker) return; // without the marker libjpeg takes it for CMYK
  const auto file = write_jpeg(image, {.from = JCS_CMYK, .stored = stored, .adobe_marker = marker});
  CHECK(fl::jpeg_decoder().read_header(file).components == 4);
  const auto rgb = fl::decode_jpeg(file);
  CHECK(largest_difference(rgb, rgb_of_cmyk(image)) <= 4);
  CHECK(largest_difference(fl::decode_jpeg(file, to_gray), gray_of(rgb)) <= 1);
}

TEST_CASE("byte products over 255 are rounded exactly") {
  bool exact = true;
  for (unsigned a = 0; a < 256; ++a)
    for (unsigned b = 0; b < 256; ++b)
      exact = exact && fl::detail::scale_byte(a, b) == (2 * a * b + 255) / 510;
  CHECK(exact);
}

TEST_CASE("every sampling decodes, also if the sides aren't multiples of a block") {
  for (int across = 1; across <= 4; ++across)
    for (int down = 1; down <= 4; ++down) {
      if (across * down > 8) continue; // more blocks than the format allows
      for (const std::size_t side : {1u, 7u, 16u, 33u, 65u}) {
        const auto image = gradient(side, 66 - side, 3);
        const auto decoded = fl::decode_jpeg(write_jpeg(image, {.across = across, .down = down}));
        INFO(across << " x " << down << ", height " << side);
        REQUIRE(decoded.shape() == image.shape());
        // A pixel of a thin image is many steps of the gradient, and subsampled colour averages over them.
        if (side >= 16 && side <= 33) CHECK(largest_difference(decoded, image) <= 20);
      }
    }
}

TEST_CASE("progressive, arithmetic, non-interleaved and restarting files have the pixels of baseline ones") {
  const auto image = gradient(50, 60, 3);
  const auto baseline = fl::decode_jpeg(write_jpeg(image, {.across = 2, .down = 2}));
  const auto same = [&](fl::test::jpeg_recipe recipe) {
    recipe.across = recipe.down = 2;
    return largest_difference(fl::decode_jpeg(write_jpeg(image, recipe)), baseline) == 0;
  };
  CHECK(same({.progressive = true}));
  CHECK(same({.interleaved = false}));
  CHECK(same({.restart_rows = 1}));
  CHECK(same({.progressive = true, .restart_rows = 1}));
#ifdef D_ARITH_CODING_SUPPORTED
  CHECK(same({.arithmetic = true}));
  CHECK(same({.progressive = true, .arithmetic = true}));
#endif
}

TEST_CASE("the header is read without decoding pixels") {
  fl::jpeg_decoder decoder;
  const auto file = write_jpeg(gradient(30, 50, 3), {.progressive = true, .exif = fl::test::exif_payload(6)});
  const auto stored = decoder.read_header(file);
  CHECK(stored.shape() == fl::shape{30, 50, 3});
  CHECK(stored.components == 3);
  CHECK(stored.progressive);
  CHECK(stored.orientation == fl::exif_orientation::upright);
  const auto upright = decoder.read_header(file, {.color = fl::pixel_color::gray, .apply_orientation = true});
  CHECK(upright.shape() == fl::shape{50, 30, 1});
  CHECK(upright.orientation == fl::exif_orientation::rotate_90);
  CHECK_FALSE(decoder.read_header(write_jpeg(gradient(8, 8, 3))).progressive);
}

TEST_CASE("pixels can be decoded into the caller's memory") {
  fl::jpeg_decoder decoder;
  const auto file = write_jpeg(gradient(19, 23, 3));
  const auto expected = decoder.decode(file);
  std::vector<std::uint8_t> memory(expected.size() + 2, 77);
  const std::span<std::uint8_t> pixels(memory.data() + 1, expected.size());
  CHECK(decoder.decode_into(file, pixels).shape() == expected.shape());
  CHECK(std::equal(expected.begin(), expected.end(), pixels.begin()));
  CHECK((memory.front() == 77 && memory.back() == 77));
  CHECK_THROWS_AS(decoder.decode_into(file, pixels.first(pixels.size() - 1)), std::invalid_argument);
  CHECK_THROWS_AS(decoder.decode_into(file, memory), std::invalid_argument);
  CHECK(throws_saying<std::invalid_argument>("[19, 23, 3]", [&] { decoder.decode_into(file, {}); }));
}

TEST_CASE("all eight orientations are applied, to colour, gray and converted pixels") {
  const int orientation = GENERATE(range(1, 9));
  const auto [stored, from, channels] = GENERATE(table<J_COLOR_SPACE, J_COLOR_SPACE, std::size_t>(
      {{JCS_YCbCr, JCS_RGB, 3}, {JCS_GRAYSCALE, JCS_GRAYSCALE, 1}, {JCS_CMYK, JCS_CMYK, 4}}));
  const auto color = GENERATE(fl::pixel_color::rgb, fl::pixel_color::gray);
  const std::size_t height = 37, width = 21; // several strips of rows and an incomplete one
  const auto file = write_jpeg(
      gradient(height, width, channels),
      {.from = from, .stored = stored, .exif = fl::test::exif_payload(orientation, orientation % 2 == 0)});
  const auto plain = fl::decode_jpeg(file, {.color = color});
  const auto turned = fl::decode_jpeg(file, {.color = color, .apply_orientation = true});

  INFO("orientation " << orientation);
  const bool sideways = orientation >= 5;
  const std::size_t bytes = color == fl::pixel_color::rgb ? 3 : 1;
  REQUIRE(turned.shape() == (sideways ? fl::shape{width, height, bytes} : fl::shape{height, width, bytes}));
  bool equal = true;
  for (std::size_t row = 0; row < turned.shape()[0]; ++row)
    for (std::size_t column = 0; column < turned.shape()[1]; ++column) {
      // EXIF stores which side of the scene row 0 and column 0 show: row 0 is at the bottom for 3 and 4, at
      // the right for 6 and 7, and so on.
      std::size_t y = sideways ? column : row, x = sideways ? row : column;
      if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7) y = height - 1 - y;
      if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8) x = width - 1 - x;
      for (std::size_t c = 0; c < bytes; ++c)
        equal = equal &&
                turned[(row * turned.shape()[1] + column) * bytes + c] == plain[(y * width + x) * bytes + c];
    }
  CHECK(equal);
}

TEST_CASE("a reused decoder decodes each image as if it were its first") {
  fl::jpeg_decoder decoder;
  const auto wide = write_jpeg(gradient(20, 300, 3), {.across = 2, .down = 2});
  const auto tall = write_jpeg(gradient(200, 30, 1), {.from = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE});
  const auto inked =
      write_jpeg(gradient(30, 31, 4), {.from = JCS_CMYK, .stored = JCS_YCCK, .progressive = true});
  const auto broad = write_jpeg(gradient(9, 200, 4), {.from = JCS_CMYK, .stored = JCS_CMYK});
  const auto turned = write_jpeg(gradient(30, 31, 3), {.exif = fl::test::exif_payload(8)});
  for (int round = 0; round < 3; ++round) {
    for (const auto& file : {wide, tall, inked, broad, turned}) {
      CHECK(largest_difference(decoder.decode(file), fl::jpeg_decoder().decode(file)) == 0);
      CHECK(largest_difference(decoder.decode(file, to_gray), fl::jpeg_decoder().decode(file, to_gray)) == 0);
    }
    CHECK(decoder.decode(turned, {.apply_orientation = true}).shape() == fl::shape{31, 30, 3});
    CHECK(decoder.decode(turned).shape() == fl::shape{30, 31, 3});
    CHECK_THROWS_AS(decoder.decode(std::span(wide).first(wide.size() / 2)), fl::jpeg_error);
  }
}

TEST_CASE("threads decode concurrently") {
  const auto file = write_jpeg(gradient(64, 64, 3), {.progressive = true});
  const auto expected = fl::decode_jpeg(file);
  std::vector<int> differences(4, -1);
  std::vector<std::thread> threads;
  for (auto& difference : differences)
    threads.emplace_back([&] {
      difference = 0;
      for (int i = 0; i < 50; ++i) difference |= largest_difference(fl::decode_jpeg(file), expected);
    });
  for (auto& thread : threads) thread.join();
  CHECK(differences == std::vector<int>(4, 0));
}

TEST_CASE("kept warnings are counted, and the rows before the damage are correct") {
  fl::jpeg_decoder decoder;
  const auto file = write_jpeg(gradient(160, 64, 3));
  const auto whole = decoder.decode(file);
  CHECK(decoder.warnings() == 0);
  const auto half = decoder.decode(std::span(file).first(file.size() - file.size() / 4), keeping);
  CHECK(decoder.warnings() > 0);
  REQUIRE(half.shape() == whole.shape());
  CHECK(std::equal(half.begin(), half.begin() + 16 * 64 * 3, whole.begin()));
  CHECK_FALSE(std::equal(half.begin(), half.end(), whole.begin()));
  CHECK(largest_difference(decoder.decode(file, keeping), whole) == 0);
  CHECK(decoder.warnings() == 0);
}

TEST_CASE("a JPEG without an orientation in its EXIF data is turned upright as its XMP data say") {
  const auto image = gradient(16, 24, 3);
  const auto xmp_payload = [](std::string_view number) {
    const std::string packet = "http://ns.adobe.com/xap/1.0/" + std::string(1, '\0') +
                               "<x:xmpmeta tiff:Orientation=\"" + std::string(number) + "\"/>";
    const auto bytes = std::as_bytes(std::span(packet));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  const fl::jpeg_options upright{.apply_orientation = true};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const auto by_exif =
        fl::decode_jpeg(write_jpeg(image, {.exif = fl::test::exif_payload(orientation)}), upright);
    const auto file = write_jpeg(image, {.exif = xmp_payload(std::to_string(orientation))});
    const auto by_xmp = fl::decode_jpeg(file, upright);
    CHECK(by_xmp.shape() == by_exif.shape());
    CHECK(largest_difference(by_xmp, by_exif) == 0);
    CHECK(fl::decode_jpeg(file).shape() == image.shape());
  }
  for (const std::string_view number : {"0", "9", "x", ""})
    CHECK(fl::decode_jpeg(write_jpeg(image, {.exif = xmp_payload(number)}), upright).shape() ==
          image.shape());
  // EXIF data count more, also after XMP data.
  auto both = write_jpeg(image, {.exif = xmp_payload("6")});
  auto segment = fl::test::bytes({0xff, 0xe1, 0, 0});
  const auto exif = fl::test::exif_payload(1);
  segment.insert(segment.end(), exif.begin(), exif.end());
  segment[3] = static_cast<std::byte>(segment.size() - 2);
  both.insert(both.begin() + 2, segment.begin(), segment.end());
  CHECK(fl::decode_jpeg(both, upright).shape() == image.shape());
}
