// SPDX-License-Identifier: MIT
// The decoders with a plain libjpeg, and without libpng and libwebp. The JPEG decoder's other tests are compiled for it, too.
#include <feedline/image/jpeg_decoder.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/jpeg_writer.hpp"
#include "support/printed.hpp"
#include "support/throws_saying.hpp"

#include <feedline/image/image_decoder.hpp>

namespace fl = feedline;
using fl::test::printed;

#ifndef FEEDLINE_PLAIN_LIBJPEG
#error "this test is for FEEDLINE_PLAIN_LIBJPEG"
#endif

TEST_CASE("a program prints at most once that its libjpeg is a plain one") {
  const auto file = fl::test::write_jpeg(fl::test::noise(20, 20, 3));
  const auto decode = [&] {
    fl::tensor<std::uint8_t> part(fl::shape{5, 5, 3});
    const auto box = [](std::size_t, std::size_t) { return fl::crop_box{10, 10, 5, 5}; };
    fl::jpeg_decoder().decode_crop(file, box, hwc_view(part));
  };
  const std::string first = printed(decode); // empty if an earlier test has printed it
  CHECK((first.empty() || first.find("isn't libjpeg-turbo") != std::string::npos));
  CHECK(printed([&] {
          decode();
          std::jthread another(decode);
        }) == "");
}

TEST_CASE("without libpng and libwebp, their images are refused by name, and JPEGs are decoded") {
  using namespace std::string_view_literals;
  const auto says = [](std::string_view file, std::string_view part) {
    const auto bytes = std::as_bytes(std::span(file));
    return fl::test::throws_saying<fl::image_error>(part, [&] { fl::decode_image(bytes); });
  };
  CHECK(says("\x89PNG\r\n\x1a\n", "the file is a PNG, but this program was built without libpng"));
  CHECK(says("RIFF\x04\0\0\0WEBP"sv, "the file is a WebP image, but this program was built without libwebp"));
  CHECK(fl::decode_image(fl::test::write_jpeg(fl::test::gradient(8, 9, 3))).shape() == fl::shape{8, 9, 3});
}
