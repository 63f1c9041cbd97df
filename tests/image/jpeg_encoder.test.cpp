// SPDX-License-Identifier: MIT
#include <feedline/image/jpeg_encoder.hpp>

#include "support/catch.hpp"
#include "support/jpeg_writer.hpp"
#include "support/throws_saying.hpp"

#include <feedline/core/random.hpp>
#include <feedline/image/jpeg_decoder.hpp>

namespace fl = feedline;
using fl::test::gradient;
using fl::test::largest_difference;
using fl::test::throws_saying;

TEST_CASE("an encoded image decodes to itself, within a few steps") {
  const auto rgb = gradient(48, 64, 3);
  CHECK(largest_difference(fl::decode_jpeg(fl::encode_jpeg(rgb, 95)), rgb) <= 8);
  const auto gray = gradient(48, 64, 1);
  const auto file = fl::encode_jpeg(gray, 95);
  CHECK(fl::jpeg_decoder().read_header(file).components == 1);
  CHECK(largest_difference(fl::decode_jpeg(file, {.color = fl::pixel_color::gray}), gray) <= 3);
}

TEST_CASE("the file is as long as needed, and grows with the quality") {
  fl::tensor<std::uint8_t> noise(fl::shape{200, 200, 3});
  fl::random_generator random(1);
  for (auto& value : noise) value = static_cast<std::uint8_t>(random.below(256));
  const auto coarse = fl::encode_jpeg(noise, 10),
             fine = fl::encode_jpeg(noise, 100); // exceeds the initial buffer
  CHECK(coarse.size() < fine.size());
  for (const auto& file : {coarse, fine}) {
    CHECK(file[file.size() - 2] == std::byte{0xff});
    CHECK(file[file.size() - 1] == std::byte{0xd9});
    CHECK(fl::decode_jpeg(file).shape() == noise.shape());
  }
}

TEST_CASE("tensors with a static shape and spans of pixels are encoded, too") {
  fl::tensor<std::uint8_t, 4, 6, 3> image;
  std::fill(image.begin(), image.end(), std::uint8_t{200});
  const auto file = fl::encode_jpeg(image);
  CHECK(fl::decode_jpeg(file).shape() == fl::shape{4, 6, 3});
  CHECK(fl::encode_jpeg({image.data(), image.size()}, fl::shape{4, 6, 3}) == file);
}

TEST_CASE("invalid arguments are refused with a clear message") {
  const std::vector<std::uint8_t> pixels(24);
  CHECK_THROWS_AS(fl::encode_jpeg(pixels, fl::shape{4, 6}), std::invalid_argument);
  CHECK_THROWS_AS(fl::encode_jpeg(pixels, fl::shape{3, 4, 2}), std::invalid_argument);
  CHECK(throws_saying<std::invalid_argument>("[3, 3, 3]", [&] {
    fl::encode_jpeg(pixels, fl::shape{3, 3, 3});
  }));
  CHECK_THROWS_AS(fl::encode_jpeg(pixels, fl::shape{2, 4, 3}, 0), std::invalid_argument);
  CHECK_THROWS_AS(fl::encode_jpeg(pixels, fl::shape{2, 4, 3}, 101), std::invalid_argument);
  CHECK(throws_saying<fl::jpeg_error>("Empty", [&] { fl::encode_jpeg({}, fl::shape{0, 0, 3}); }));
  const std::vector<std::uint8_t> line(65501);
  CHECK_THROWS_AS(fl::encode_jpeg(line, fl::shape{1, 65501, 1}), fl::jpeg_error);
  CHECK_NOTHROW(fl::encode_jpeg(std::span(line).first(65500), fl::shape{65500, 1, 1}));
}
