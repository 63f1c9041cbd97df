// SPDX-License-Identifier: MIT
// Crops of JPEGs with restart markers have the pixels of the whole image, and read only what they need.
#include <feedline/image/jpeg_decoder.hpp>

#include "support/catch.hpp"
#include "support/image_crops.hpp"
#include "support/jpeg_writer.hpp"

#include <feedline/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace fl = feedline;
using fl::test::gives_pixels_of;
using fl::test::jpeg_recipe;
using fl::test::noise;
using fl::test::part_of;
using fl::test::random_box;
using fl::test::takes;
using fl::test::write_jpeg;

namespace {

using bytes = std::vector<std::byte>;

constexpr fl::jpeg_options keeping{.on_corrupt = fl::on_corrupt::keep};

std::ptrdiff_t at(std::size_t place) { return static_cast<std::ptrdiff_t>(place); }

bytes spliced(const bytes& file, std::size_t begin, std::size_t end, const bytes& instead) {
  bytes result(file.begin(), file.begin() + at(begin));
  result.insert(result.end(), instead.begin(), instead.end());
  result.insert(result.end(), file.begin() + at(end), file.end());
  return result;
}

std::size_t find(const bytes& file, unsigned code) {
  for (std::size_t i = 0; i + 1 < file.size(); ++i)
    if (file[i] == std::byte{0xff} && file[i + 1] == static_cast<std::byte>(code)) return i;
  FAIL("no such marker");
  return 0;
}

/// Where the segments of coded data begin and end.
struct segments_of {
  explicit segments_of(const bytes& file) {
    const std::size_t scan = find(file, 0xda);
    begins.push_back(scan + 2 + std::to_integer<std::size_t>(file[scan + 3]));
    for (std::size_t i = begins[0]; i + 1 < file.size(); ++i) {
      if (file[i] != std::byte{0xff} || file[i + 1] < std::byte{0xd0} || file[i + 1] > std::byte{0xd9})
        continue;
      ends.push_back(i);
      if (file[i + 1] == std::byte{0xd9}) break;
      begins.push_back(i + 2);
    }
  }

  std::vector<std::size_t> begins, ends;
};

// Takes the codes out of all segments except these.
bytes with_only(bytes file, const std::set<std::size_t>& kept) {
  const segments_of all(file);
  for (std::size_t i = all.ends.size(); i-- > 0;)
    if (!kept.contains(i)) file.erase(file.begin() + at(all.begins[i]), file.begin() + at(all.ends[i]));
  return file;
}

// Whether a crop of whole pixels has those of the whole image, where damage keeps neither from being decoded.
bool agrees_with_whole(fl::jpeg_decoder& decoder, const bytes& file, const fl::crop_box& box) {
  const auto or_nothing = [](const auto& decode) -> fl::tensor<std::uint8_t> {
    try {
      return decode();
    } catch (const fl::jpeg_error&) {
      return {};
    }
  };
  const auto all = or_nothing([&] { return decoder.decode(file, keeping); });
  for (const auto& options : {keeping, fl::jpeg_options{}}) {
    const auto part = or_nothing([&] { return part_of(decoder, file, box, options); });
    if (all.size() > 0 && part.size() > 0 && !gives_pixels_of(decoder, file, all, box, options)) return false;
    if (all.size() > 0 && part.size() == 0 && options.on_corrupt == fl::on_corrupt::keep) return false;
  }
  return true;
}

/// A file whose rows have four segments, and its boxes: of one pixel, at each edge, over each boundary.
struct marked {
  static constexpr std::size_t height = 80, width = 128, per_row = 4, rows = 5;

  marked()
      : image(noise(height, width, 3)),
        file(write_jpeg(image, {.across = 2, .down = 2, .restart_interval = 2})) {
    REQUIRE(segments_of(file).ends.size() == rows * per_row);
    for (const double y : {0, 15, 16, 40, 79})
      for (const double x : {0, 31, 32, 63, 127}) boxes.push_back({y, x, 1, 1});
    boxes.insert(boxes.end(),
                 {{20, 40, 8, 8}, {0, 40, 80, 8}, {20, 0, 8, 128}, {70, 100, 10, 28}, {0, 0, 80, 128}});
  }

  fl::tensor<std::uint8_t> image;
  bytes file;
  std::vector<fl::crop_box> boxes;
};

} // namespace

TEST_CASE(
    "a crop between restart markers has the pixels of the whole image, for every sampling and interval") {
  fl::jpeg_decoder decoder;
  fl::random_generator random(1);
  const auto image = noise(61, 103, 3);
  for (int across = 1; across <= 4; ++across)
    for (int down = 1; down <= 4; ++down) {
      if (across * down > 8) continue; // more blocks than the format allows
      const auto columns = static_cast<unsigned>((103 + 8 * across - 1) / (8 * across));
      for (unsigned interval = 1; interval <= 3 * columns; ++interval) {
        const auto file = write_jpeg(image, {.across = across, .down = down, .restart_interval = interval});
        const auto all = decoder.decode(file);
        INFO(across << " x " << down << ", interval " << interval << " of " << columns);
        for (int i = 0; i < 12; ++i) {
          auto box = random_box(61, 103, random);
          if (i % 3 == 0) box.height = box.width = 1;
          INFO(box.top << ", " << box.left << ": " << box.height << " x " << box.width);
          REQUIRE(gives_pixels_of(decoder, file, all, box, {}));
        }
      }
    }
}

TEST_CASE("restart markers don't change a resized crop, whatever its size and filter") {
  fl::jpeg_decoder decoder;
  fl::random_generator random(2);
  const auto image = noise(150, 250, 3);
  for (const auto& [across, down] : {std::pair(1, 1), {2, 1}, {2, 2}, {1, 2}, {4, 1}, {4, 2}, {3, 1}})
    for (const unsigned interval : {1u, 2u, 0u}) {
      jpeg_recipe recipe{.across = across, .down = down};
      const auto plain = write_jpeg(image, recipe);
      const auto columns = static_cast<unsigned>((250 + 8 * across - 1) / (8 * across));
      recipe.restart_interval = interval == 0 || columns % interval != 0 ? columns : interval;
      const auto file = write_jpeg(image, recipe);
      for (int i = 0; i < 60; ++i) {
        const auto box = random_box(150, 250, random);
        const auto shrink = std::size_t{1} << random.below(5);
        const fl::shape size{std::max<std::size_t>(1, fl::test::whole(box.height) / shrink),
                             std::max<std::size_t>(1, fl::test::whole(box.width) / shrink), 3};
        fl::resize_options how{.horizontal_flip = random.chance(0.5)};
        how.antialias = random.chance(0.8);
        how.interpolation = random.chance(0.3)   ? fl::interpolation::bicubic
                            : random.chance(0.2) ? fl::interpolation::nearest
                                                 : fl::interpolation::bilinear;
        fl::tensor<std::uint8_t> a(size), b(size);
        decoder.decode_crop(plain, takes(box), hwc_view(a), how);
        decoder.decode_crop(file, takes(box), hwc_view(b), how);
        INFO(across << " x " << down << ", interval " << recipe.restart_interval << ", " << box.top << ", "
                    << box.left << ": " << box.height << " x " << box.width << ", by " << shrink);
        REQUIRE(std::equal(a.begin(), a.end(), b.begin()));
      }
    }
}

TEST_CASE("narrow crops have the pixels of the image without markers, at every size and at each edge") {
  fl::jpeg_decoder decoder;
  for (int across = 1; across <= 4; ++across)
    for (int down = 1; down <= 2; ++down)
      for (const std::size_t columns : {192u, 193u, 194u, 195u, 196u, 198u, 200u, 201u, 205u}) {
        const auto image = noise(67, columns, 3);
        const auto plain = write_jpeg(image, {.across = across, .down = down});
        const auto file = write_jpeg(image, {.across = across, .down = down, .restart_interval = 1});
        for (const std::size_t by : {1u, 2u, 4u, 8u})
          for (const std::size_t width : {1u, 2u, 3u})
            for (const std::size_t left : {std::size_t{0}, std::size_t{64}, columns / by * by - by * width})
              for (const std::size_t top : {std::size_t{0}, 67 / by * by - by}) {
                const fl::crop_box box{static_cast<double>(top), static_cast<double>(left),
                                       static_cast<double>(by), static_cast<double>(by * width)};
                const auto crop = [&](const bytes& from) {
                  fl::tensor<std::uint8_t> part(fl::shape{1, width, 3});
                  decoder.decode_crop(from, takes(box), hwc_view(part));
                  return part;
                };
                INFO(across << " x " << down << ", " << columns << " columns, " << top << ", " << left << ": "
                            << width << ", by " << by);
                REQUIRE(fl::test::largest_difference(crop(plain), crop(file)) == 0);
              }
      }
}

TEST_CASE("crops between restart markers are right for every colour space, orientation and kind of file") {
  fl::jpeg_decoder decoder;
  fl::random_generator random(3);
  const auto [stored, from, channels] = GENERATE(from_range(fl::test::color_recipes));
  for (const auto color : {fl::pixel_color::rgb, fl::pixel_color::gray})
    for (int orientation = 1; orientation <= 8; ++orientation)
      for (int kind = 0; kind < 5; ++kind) {
        const auto file = write_jpeg(noise(47, 64, channels), {.from = from,
                                                               .stored = stored,
                                                               .across = kind == 1 ? 2 : 1,
                                                               .down = kind == 1 ? 2 : 1,
                                                               .progressive = kind == 2,
                                                               .interleaved = kind != 3,
                                                               .restart_interval = kind == 4 ? 8u : 2u,
                                                               .exif = fl::test::exif_payload(orientation)});
        const fl::jpeg_options options{.color = color, .apply_orientation = true};
        const auto all = decoder.decode(file, options);
        for (int i = 0; i < 6; ++i) {
          const auto box = random_box(all.shape()[0], all.shape()[1], random);
          INFO("kind " << kind << ", orientation " << orientation);
          REQUIRE(gives_pixels_of(decoder, file, all, box, options, i % 2 == 0));
        }
      }
}

#ifdef D_ARITH_CODING_SUPPORTED
TEST_CASE("restart markers in arithmetic coding are left to libjpeg") {
  fl::jpeg_decoder decoder;
  fl::random_generator random(4);
  const auto file = write_jpeg(noise(47, 64, 3), {.arithmetic = true, .restart_interval = 2});
  const auto all = decoder.decode(file);
  for (int i = 0; i < 20; ++i) CHECK(gives_pixels_of(decoder, file, all, random_box(47, 64, random), {}));
}
#endif

TEST_CASE("only the segments under the crop are read") {
  fl::jpeg_decoder decoder;
  const marked m;
  const auto all = decoder.decode(m.file);
  const auto reads = [&](const fl::crop_box& box, const std::set<std::size_t>& segments) {
    const bytes rest = with_only(m.file, segments);
    CHECK_THROWS_AS(decoder.decode(rest), fl::jpeg_error);
    if (!gives_pixels_of(decoder, rest, all, box, {})) return false;
    for (const std::size_t needed : segments) {
      auto fewer = segments;
      fewer.erase(needed);
      try { // each of them matters
        part_of(decoder, with_only(m.file, fewer), box);
        return false;
      } catch (const fl::jpeg_error&) {
      }
    }
    return true;
  };
  CHECK(reads({0, 0, 3, 3}, {0}));
  CHECK(reads({20, 40, 4, 8}, {5}));
  CHECK(reads({20, 40, 4, 30}, {5, 6}));
  CHECK(reads({15, 40, 1, 1}, {1, 5})); // colours are interpolated over two rows
  CHECK(reads({20, 32, 1, 1}, {4, 5})); // and columns
  CHECK(reads({40, 100, 40, 20}, {11, 15, 19}));
  CHECK(reads({70, 127, 1, 1}, {19}));
  CHECK(reads({0, 127, 1, 1}, {3}));
  CHECK(reads({64 + 2, 0, 14, 128}, {16, 17, 18, 19}));
}

TEST_CASE("markers that are missing, doubled or in another order give the pixels that libjpeg gives") {
  fl::jpeg_decoder decoder;
  const marked m;
  const segments_of all(m.file);
  for (std::size_t i = 0; i + 1 < all.ends.size(); ++i) {
    const std::size_t marker = all.ends[i];
    const auto number = std::to_integer<unsigned>(m.file[marker + 1]);
    const auto code = [](unsigned last) { return bytes{std::byte{0xff}, static_cast<std::byte>(last)}; };
    bytes twice = code(number);
    twice.insert(twice.end(), twice.begin(), twice.begin() + 2);
    for (const bytes& instead : {bytes{}, twice, code(0xd0 + (number + 1) % 8), code(0xd0 + (number + 7) % 8),
                                 code(0xd9), code(0x01), code(0xfe), code(0x00), bytes{std::byte{0xff}}}) {
      const bytes file = spliced(m.file, marker, marker + 2, instead);
      for (const auto& box : m.boxes) {
        INFO("marker " << i << " of " << number << ", " << instead.size() << " bytes instead, " << box.top
                       << ", " << box.left << ": " << box.height << " x " << box.width);
        REQUIRE(agrees_with_whole(decoder, file, box));
      }
    }
  }
}

TEST_CASE("after a missing marker libjpeg finds its place again") {
  fl::jpeg_decoder decoder;
  const marked m;
  const segments_of all(m.file);
  const bytes file = spliced(m.file, all.ends[5], all.ends[5] + 2, {});
  const auto pixels = decoder.decode(m.file);
  CHECK_FALSE(gives_pixels_of(decoder, file, pixels, {16, 32, 16, 96}, keeping));
  CHECK(gives_pixels_of(decoder, file, pixels, {50, 0, 30, 128}, keeping));
  CHECK(fl::test::has_pixels_of(part_of(decoder, m.file, {50, 0, 30, 128}), decoder.decode(file, keeping),
                                {50, 0, 30, 128}));
}

TEST_CASE("segments with too few or too many codes give the pixels or the error that libjpeg gives") {
  fl::jpeg_decoder decoder;
  const marked m;
  const segments_of all(m.file);
  for (std::size_t i = 0; i < all.ends.size(); ++i) {
    const std::size_t begin = all.begins[i], end = all.ends[i], middle = (begin + end) / 2;
    const bytes segment(m.file.begin() + at(begin), m.file.begin() + at(end));
    for (const bytes& file : {spliced(m.file, middle, end, {}), spliced(m.file, begin, end, {}),
                              spliced(m.file, end, end, segment), spliced(m.file, end, end, bytes(7)),
                              spliced(m.file, end, end, bytes(3, std::byte{0xff})),
                              bytes(m.file.begin(), m.file.begin() + at(middle)),
                              bytes(m.file.begin(), m.file.begin() + at(end + 1))})
      for (const auto& box : m.boxes) {
        INFO("segment " << i << ", " << box.top << ", " << box.left << ": " << box.height << " x "
                        << box.width);
        REQUIRE(agrees_with_whole(decoder, file, box));
      }
  }
  // Repeated 0xff before a marker is allowed.
  const bytes filled = spliced(m.file, all.ends[6], all.ends[6], bytes(3, std::byte{0xff}));
  CHECK(gives_pixels_of(decoder, filled, decoder.decode(m.file), {20, 70, 8, 40}, {}));
  // Damage in the part is an error.
  const bytes shorter = spliced(m.file, all.begins[5], all.ends[5] - 2, {});
  CHECK_THROWS_AS(part_of(decoder, shorter, {20, 40, 8, 8}), fl::jpeg_error);
  CHECK_NOTHROW(part_of(decoder, shorter, {20, 80, 8, 8}));
  CHECK_NOTHROW(part_of(decoder, shorter, {20, 40, 8, 8}, keeping));
  CHECK(decoder.warnings() > 0);
}

TEST_CASE("an interval that lies is the error that the whole image gives") {
  fl::jpeg_decoder decoder;
  const marked m;
  bytes file = m.file;
  file[find(file, 0xdd) + 5] = std::byte{1};
  CHECK_THROWS_AS(decoder.decode(file), fl::jpeg_error);
  std::size_t failed = 0;
  for (const auto& box : m.boxes) {
    REQUIRE(agrees_with_whole(decoder, file, box));
    try {
      part_of(decoder, file, box);
    } catch (const fl::jpeg_error&) {
      ++failed;
    }
  }
  CHECK(failed + 1 >= m.boxes.size()); // of the first MCU there is nothing else
}

TEST_CASE("a crop of a file with a large header has the right pixels") {
  fl::jpeg_decoder decoder;
  const marked m;
  const auto all = decoder.decode(m.file);
  bytes file(m.file.begin(), m.file.begin() + 2);
  for (int i = 0; i < 300; ++i) {
    const bytes marker = fl::test::bytes({0xff, 0xee, 0xff, 0xf0});
    file.insert(file.end(), marker.begin(), marker.end());
    file.resize(file.size() + 0xffee);
  }
  file.insert(file.end(), m.file.begin() + 2, m.file.end());
  CHECK(gives_pixels_of(decoder, file, all, {20, 40, 8, 8}, {}));
}

TEST_CASE("whatever bytes change, a crop has the pixels of the whole image as far as it can be decoded") {
  fl::jpeg_decoder decoder;
  fl::random_generator random(5);
  const marked m;
  const std::size_t coded = segments_of(m.file).begins[0];
  for (int round = 0; round < 600; ++round) {
    bytes file = m.file;
    for (std::uint64_t left = 1 + random.below(3); left > 0; --left) {
      const std::size_t place = coded + random.below(file.size() - coded);
      file[place] = random.chance(0.3) ? std::byte{0xff} : static_cast<std::byte>(random.below(256));
      if (random.chance(0.2) && place + 1 < file.size()) {
        file[place] = std::byte{0xff};
        file[place + 1] = static_cast<std::byte>(0xd0 + random.below(10));
      }
    }
    const auto box = random_box(m.height, m.width, random);
    INFO("round " << round << ", " << box.top << ", " << box.left << ": " << box.height << " x "
                  << box.width);
    REQUIRE(agrees_with_whole(decoder, file, box));
  }
}

TEST_CASE("a header as no encoder writes it is left to libjpeg") {
  fl::jpeg_decoder decoder;
  const marked m;
  const auto all = decoder.decode(m.file);
  const fl::crop_box box{20, 40, 8, 8};
  const std::size_t frame = find(m.file, 0xc0), restarts = find(m.file, 0xdd);
  // Padding before a marker, a comment, and the interval given twice: the last one counts.
  const bytes comment = fl::test::bytes({0xff, 0xfe, 0, 4, 'h', 'i'}),
              twice = fl::test::bytes({0xff, 0xdd, 0, 4, 0, 7});
  for (const bytes& file :
       {spliced(m.file, frame, frame, bytes(2, std::byte{0xff})), spliced(m.file, frame, frame, comment),
        spliced(m.file, restarts, restarts, twice)})
    CHECK(gives_pixels_of(decoder, file, all, box, {}));
  // Bytes between markers are a warning.
  const bytes garbage = spliced(m.file, frame, frame, bytes(3));
  CHECK(gives_pixels_of(decoder, garbage, all, box, keeping));
  CHECK_THROWS_AS(part_of(decoder, garbage, box), fl::jpeg_error);
  // A file that begins with a start of scan, or in which another one follows the coded data.
  bytes two = m.file;
  two.insert(two.end(), m.file.begin(), m.file.end());
  CHECK(gives_pixels_of(decoder, two, all, box, {}));
}

TEST_CASE("the decoder does other work between crops of marked files") {
  fl::jpeg_decoder decoder;
  const marked m;
  const auto all = decoder.decode(m.file);
  const auto other =
      write_jpeg(noise(40, 30, 1), {.from = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .progressive = true});
  const auto gray = decoder.decode(other);
  const bytes damaged(m.file.begin(), m.file.begin() + at(m.file.size() / 2));
  for (int i = 0; i < 3; ++i) {
    CHECK(gives_pixels_of(decoder, m.file, all, {20, 40, 8, 8}, {}));
    CHECK(gives_pixels_of(decoder, other, gray, {3, 4, 20, 20}, {}));
    CHECK_THROWS_AS(part_of(decoder, damaged, {60, 40, 8, 8}), fl::jpeg_error);
    CHECK(decoder.read_header(m.file).width == 128);
    CHECK(std::equal(all.begin(), all.end(), decoder.decode(m.file).begin()));
  }
}
