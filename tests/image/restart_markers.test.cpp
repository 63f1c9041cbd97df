// SPDX-License-Identifier: MIT
#include <feedline/image/detail/jpeg_markers.hpp>
#include <feedline/image/restart_markers.hpp>
#include <feedline/source/files.hpp>

#include "support/catch.hpp"
#include "support/files_in.hpp"
#include "support/image_crops.hpp"
#include "support/jpeg_writer.hpp"
#include "support/rounds.hpp"
#include "support/test_data.hpp"
#include "support/throws_saying.hpp"

#include <feedline/core/random.hpp>
#include <feedline/source/tar.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace fl = feedline;
using fl::test::gives_pixels_of;
using fl::test::gradient;
using fl::test::largest_difference;
using fl::test::noise;
using fl::test::random_box;
using fl::test::throws_saying;
using fl::test::write_jpeg;

namespace {

using bytes = std::vector<std::byte>;

constexpr fl::restart_marker_options however_large{.max_growth = 100};

/// The size and restart interval that the header says, and where each kind of marker is.
struct header_of {
  explicit header_of(const bytes& file) {
    fl::detail::jpeg_markers markers(file);
    while (const auto marker = markers.next()) {
      all.push_back(*marker);
      if (marker->code == 0xdd)
        interval = fl::detail::jpeg_byte(marker->bytes, 4) << 8 | fl::detail::jpeg_byte(marker->bytes, 5);
      if (fl::detail::is_jpeg_frame(marker->code)) frame = marker->code;
    }
  }

  /// The application markers and comments.
  std::vector<bytes> metadata() const {
    std::vector<bytes> found;
    for (const auto& marker : all)
      if (marker.code >= 0xe0) found.emplace_back(marker.bytes.begin(), marker.bytes.end());
    return found;
  }

  std::vector<fl::detail::jpeg_marker> all;
  unsigned interval = 0, frame = 0;
};

bytes with_marker(const bytes& file, unsigned code, const bytes& payload) {
  bytes result{file[0],
               file[1],
               std::byte{0xff},
               static_cast<std::byte>(code),
               static_cast<std::byte>((payload.size() + 2) >> 8),
               static_cast<std::byte>((payload.size() + 2) & 0xff)};
  result.insert(result.end(), payload.begin(), payload.end());
  result.insert(result.end(), file.begin() + 2, file.end());
  return result;
}

std::string unchanged(const bytes& file, const fl::restart_marker_options& options = however_large) {
  const auto marked = fl::add_restart_markers(file, options);
  if (marked.unchanged.empty()) return "it was rewritten";
  CHECK(marked.bytes == file);
  CHECK(marked.segments_per_row == 0);
  return marked.unchanged;
}

} // namespace

TEST_CASE("restart markers divide the rows of MCUs, and keep coefficients, pixels and metadata") {
  fl::jpeg_decoder decoder;
  fl::random_generator random(1);
  for (const auto& [stored, from, channels] : fl::test::color_recipes)
    for (const int sampling : {1, 2})
      for (const bool progressive : {false, true})
        for (const bool interleaved : {true, false})
          for (const std::size_t width : {192u, 185u, 8u}) {
            const auto file =
                write_jpeg(noise(50, width, channels), {.from = from,
                                                        .stored = stored,
                                                        .across = sampling,
                                                        .down = sampling,
                                                        .progressive = progressive,
                                                        .interleaved = interleaved || progressive,
                                                        .restart_rows = interleaved ? 0 : 2,
                                                        .exif = fl::test::exif_payload(6)});
            const auto marked = fl::add_restart_markers(file, however_large);
            REQUIRE(marked.unchanged.empty());
            const std::size_t in_mcu = channels == 1 || sampling == 1 ? 8 : 16; // columns
            const std::size_t columns = (width + in_mcu - 1) / in_mcu;
            CHECK(marked.segments_per_row == (columns == 24 ? 12 : columns));
            const header_of before(file), after(marked.bytes);
            CHECK(after.interval == columns / marked.segments_per_row);
            CHECK(after.frame == 0xc0);
            CHECK(after.metadata() == before.metadata());
            CHECK(fl::same_jpeg_coefficients(file, marked.bytes));
            const auto all = decoder.decode(file);
            CHECK(largest_difference(all, decoder.decode(marked.bytes)) == 0);
            for (int i = 0; i < 5; ++i)
              CHECK(gives_pixels_of(decoder, marked.bytes, all, random_box(50, width, random), {}));
          }
}

TEST_CASE("the number of segments is the largest divisor up to the given one") {
  const auto file = write_jpeg(gradient(16, 8 * 36, 3));
  for (const auto& [most, segments] : std::map<std::size_t, std::size_t>{{0, 1},
                                                                         {1, 1},
                                                                         {2, 2},
                                                                         {3, 3},
                                                                         {5, 4},
                                                                         {16, 12},
                                                                         {17, 12},
                                                                         {18, 18},
                                                                         {35, 18},
                                                                         {36, 36},
                                                                         {1000, 36}})
    CHECK(fl::add_restart_markers(file, {.segments_per_row = most, .max_growth = 100}).segments_per_row ==
          segments);
  const auto prime = write_jpeg(gradient(16, 8 * 37, 3));
  CHECK(fl::add_restart_markers(prime, however_large).segments_per_row == 1);
}

TEST_CASE("a file that would grow gets fewer segments, or none") {
  const auto file = write_jpeg(noise(64, 1024, 3));
  const auto size = [](const bytes& b) { return static_cast<double>(b.size()); };
  const auto all = fl::add_restart_markers(file, however_large);
  CHECK(all.segments_per_row == 16);
  const auto once = fl::add_restart_markers(file, {.segments_per_row = 1, .max_growth = 100});
  const double smallest = size(once.bytes) / size(file) - 1, largest = size(all.bytes) / size(file) - 1;
  CHECK(smallest < 0); // the Huffman codes fit better than those of the standard's tables
  REQUIRE(smallest < largest);
  CHECK(fl::add_restart_markers(file, {.max_growth = largest}).segments_per_row == 16);
  const auto some = fl::add_restart_markers(file, {.max_growth = (smallest + largest) / 2});
  CHECK(some.segments_per_row > 1);
  CHECK(some.segments_per_row < 16);
  CHECK(size(some.bytes) / size(file) - 1 <= (smallest + largest) / 2);
  CHECK(unchanged(file, {.max_growth = smallest - 0.001}).find("it would grow by ") == 0);
}

TEST_CASE("markers that are there already stay, so that nothing grows by being rewritten again") {
  const auto file = write_jpeg(noise(64, 1024, 3));
  const auto marked = fl::add_restart_markers(file, however_large);
  CHECK(unchanged(marked.bytes) == "it has restart markers already");
  const fl::restart_marker_options few{.segments_per_row = 4, .max_growth = 100};
  const auto fewer = fl::add_restart_markers(marked.bytes, few);
  CHECK(fewer.segments_per_row == 4);
  CHECK(unchanged(fewer.bytes, few) == "it has restart markers already");
  CHECK(unchanged(fewer.bytes) == "it has restart markers already"); // they may have been limited
  // A marker at the end of each row is worth improving, unless it is all that was possible.
  CHECK(fl::add_restart_markers(write_jpeg(noise(64, 1024, 3), {.restart_rows = 1}), however_large)
            .segments_per_row == 16);
  const fl::restart_marker_options one{.segments_per_row = 1, .max_growth = 100};
  const auto rows = fl::add_restart_markers(file, one);
  CHECK(rows.segments_per_row == 1);
  CHECK(unchanged(rows.bytes, one) == "it has restart markers already");
  CHECK(unchanged(rows.bytes) == "it has restart markers already");
}

TEST_CASE("a file that was rewritten is left as it is by the same options, however few segments it has") {
  std::size_t with_one = 0;
  for (const std::size_t width : {48u, 96u, 104u})
    for (const double growth : {0.0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.5}) {
      const fl::restart_marker_options options{.max_growth = growth};
      for (const bool optimized : {false, true}) {
        const auto file =
            write_jpeg(gradient(96, width, 3), {.across = 2, .down = 2, .optimized = optimized});
        const auto once = fl::add_restart_markers(file, options);
        const auto twice = fl::add_restart_markers(once.bytes, options);
        with_one += once.segments_per_row == 1;
        CHECK(twice.bytes == once.bytes);
        if (once.segments_per_row > 0) CHECK(twice.unchanged == "it has restart markers already");
      }
    }
  CHECK(with_one > 0);
}

TEST_CASE("metadata and bytes after the end are kept") {
  auto file = write_jpeg(noise(40, 64, 3), {.exif = fl::test::exif_payload(3)});
  file = with_marker(file, 0xfe, fl::test::bytes({'h', 'i'}));
  file = with_marker(file, 0xe2, bytes(65'000, std::byte{7}));
  file = with_marker(file, 0xef, {});
  file.insert(file.end(), {std::byte{1}, std::byte{2}});
  const auto marked = fl::add_restart_markers(file, however_large);
  REQUIRE(marked.unchanged.empty());
  CHECK(header_of(marked.bytes).metadata() == header_of(file).metadata());
  CHECK(header_of(marked.bytes).metadata().size() == 5); // with JFIF's
  CHECK(std::equal(file.end() - 4, file.end(), marked.bytes.end() - 4));
  CHECK(fl::read_exif_orientation(header_of(marked.bytes).all[4].payload()) ==
        fl::exif_orientation::rotate_180);
}

TEST_CASE("what can't be kept is passed through with the reason") {
  const auto image = noise(40, 64, 3);
  const auto file = write_jpeg(image);
#ifdef D_ARITH_CODING_SUPPORTED
  CHECK(unchanged(write_jpeg(image, {.arithmetic = true})) == "it has arithmetic coding");
  CHECK(unchanged(write_jpeg(image, {.progressive = true, .arithmetic = true})) ==
        "it has arithmetic coding");
#endif
  CHECK(unchanged(
            write_jpeg(noise(40, 64, 4), {.from = JCS_CMYK, .stored = JCS_CMYK, .adobe_marker = false})) ==
        "it is CMYK without an Adobe marker");
  CHECK(unchanged(with_marker(file, 0xe2, fl::test::bytes({'M', 'P', 'F', 0, 1, 2}))) ==
        "it has several pictures, whose positions in the file it names");
  CHECK(unchanged(write_jpeg(image, {.across = 4, .down = 4, .interleaved = false})) ==
        "its components have too many samples to be coded together");
  bytes incomplete = write_jpeg(image, {.progressive = true});
  const bytes scan = fl::test::bytes({0xff, 0xda});
  incomplete.erase(std::find_end(incomplete.begin(), incomplete.end(), scan.begin(), scan.end()),
                   incomplete.end() - 2);
  CHECK(unchanged(incomplete) == "its last scans are missing, so that decoders smooth it");
  bytes without_components = write_jpeg(image, {.interleaved = false});
  without_components.erase(
      std::find_end(without_components.begin(), without_components.end(), scan.begin(), scan.end()),
      without_components.end() - 2);
  CHECK(fl::decode_jpeg(without_components).size() == image.size());
  CHECK(unchanged(without_components) == "it has no scan of some components");
  // A marker may be preceded by more bytes 0xff.
  bytes filled = with_marker(file, 0xe2, fl::test::bytes({'M', 'P', 'F', 0, 1, 2}));
  filled.insert(filled.begin() + 2, 3, std::byte{0xff});
  CHECK(unchanged(filled).find("it has several pictures") == 0);
  const auto changed = [&](unsigned frame, unsigned bits) {
    bytes other = file;
    const bytes marker = fl::test::bytes({0xff, 0xc0});
    const auto at = std::search(other.begin(), other.end(), marker.begin(), marker.end());
    at[1] = static_cast<std::byte>(frame);
    at[4] = static_cast<std::byte>(bits);
    return unchanged(other);
  };
  CHECK(changed(0xc1, 12) == "its samples have 12 bits");
  CHECK(changed(0xc3, 8) == "its kind is Lossless JPEG");
  CHECK(changed(0xf7, 8) == "its kind is JPEG-LS");
  CHECK(changed(0xcd, 8) == "its kind is Hierarchical JPEG with arithmetic coding");
}

TEST_CASE("a damaged file is an error") {
  const auto file = write_jpeg(noise(40, 64, 3), {.restart_interval = 8});
  CHECK_THROWS_AS(fl::add_restart_markers({}), fl::jpeg_error);
  CHECK(throws_saying<fl::jpeg_error>("Not a JPEG", [] {
    fl::add_restart_markers(fl::test::bytes({1, 2, 3, 4}));
  }));
  CHECK(throws_saying<fl::jpeg_error>("feedline::add_restart_markers: ", [] {
    fl::add_restart_markers(fl::test::bytes({1, 2, 3, 4}));
  }));
  CHECK_FALSE(throws_saying<fl::jpeg_error>("on_corrupt",
                                            [&] { fl::add_restart_markers(std::span(file).first(900)); }));
  for (std::size_t size = 1; size < file.size(); size += 7)
    CHECK_THROWS_AS(fl::add_restart_markers(std::span(file).first(size)), fl::jpeg_error);
  bytes large = write_jpeg(noise(8, 8, 3));
  for (std::size_t i = 0; i + 8 < large.size(); ++i)
    if (large[i] == std::byte{0xff} && large[i + 1] == std::byte{0xc0})
      for (const std::size_t k : {5u, 7u}) large[i + k] = std::byte{0xf0};
  CHECK(throws_saying<fl::jpeg_error>("jpeg_options::max_pixels", [&] { fl::add_restart_markers(large); }));

  fl::random_generator random(2);
  for (int round = 0; round < 500;
       ++round) { // whatever changes: an error, or a file that decodes to the same
    bytes other = file;
    for (std::uint64_t left = 1 + random.below(3); left > 0; --left)
      other[random.below(other.size())] = static_cast<std::byte>(random.below(256));
    try {
      const auto marked = fl::add_restart_markers(other, however_large);
      if (!marked.unchanged.empty()) continue;
      INFO("round " << round);
      REQUIRE(largest_difference(fl::decode_jpeg(other), fl::decode_jpeg(marked.bytes)) == 0);
    } catch (const fl::jpeg_error&) {
    }
  }
}

TEST_CASE("coefficients are compared") {
  const auto image = noise(40, 64, 3);
  const auto file = write_jpeg(image, {.across = 2, .down = 2});
  const auto same = [&](const bytes& other) { return fl::same_jpeg_coefficients(file, other); };
  CHECK(same(file));
  CHECK(same(write_jpeg(image, {.across = 2, .down = 2, .progressive = true})));
  CHECK(same(write_jpeg(image, {.across = 2, .down = 2, .interleaved = false, .restart_rows = 1})));
  CHECK_FALSE(same(write_jpeg(image, {.quality = 94, .across = 2, .down = 2})));
  CHECK_FALSE(same(write_jpeg(image, {.across = 2, .down = 1})));
  CHECK_FALSE(same(write_jpeg(image, {.stored = JCS_RGB, .across = 2, .down = 2})));
  CHECK_FALSE(same(write_jpeg(noise(40, 65, 3), {.across = 2, .down = 2})));
  CHECK_FALSE(same(write_jpeg(noise(40, 64, 1), {.from = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE})));
  auto other = noise(40, 64, 3);
  other[other.size() - 1] ^= 0xff; // the last block
  CHECK_FALSE(same(write_jpeg(other, {.across = 2, .down = 2})));
  const auto changed = [](bytes from, const bytes& marker, std::ptrdiff_t place) { // a byte after the marker
    std::search(from.begin(), from.end(), marker.begin(), marker.end())[place] ^= std::byte{2};
    return from;
  };
  CHECK_FALSE(same(changed(file, fl::test::bytes({0xff, 0xdb}), 30))); // the quantization table
  const auto inks = write_jpeg(noise(40, 64, 4), {.from = JCS_CMYK, .stored = JCS_YCCK});
  const bytes adobe = fl::test::bytes({0xff, 0xee});
  CHECK(fl::same_jpeg_coefficients(inks, inks));
  CHECK_FALSE(fl::same_jpeg_coefficients(inks, changed(inks, adobe, 15))); // the meaning of the colours
  CHECK_THROWS_AS(same({}), fl::jpeg_error);
  CHECK_THROWS_AS(same({file.begin(), file.end() - 9}), fl::jpeg_error);
}

TEST_CASE("photographs have the same crops with restart markers", "[shared]") {
  const auto folder = fl::test::test_data("photos");
  if (!folder) return;
  fl::jpeg_decoder decoder;
  fl::random_generator random(3);
  fl::tar_samples photos(*folder + "/*.tar");
  std::size_t count = 0, segments = 0, before = 0, after = 0;
  for (int number = 0; const auto photo = photos.next(); ++number) {
    if (number % fl::test::place_step != 0) continue;
    const auto file = (*photo)["jpg"];
    const auto marked = fl::add_restart_markers(file);
    CHECK(marked.unchanged.empty());
    CHECK(fl::same_jpeg_coefficients(file, marked.bytes));
    ++count;
    segments += marked.segments_per_row;
    before += file.size();
    after += marked.bytes.size();
    for (const bool is_small : {false, true}) { // small ones are often decoded at a smaller size
      const std::size_t side = is_small ? 64 : 224;
      const auto header = decoder.read_header(file);
      const auto box = (count % 2 == 0) == is_small
                           ? fl::random_resized_crop{}(header.height, header.width, random)
                           : fl::resized_center_crop{}(header.height, header.width);
      fl::tensor<std::uint8_t> a(fl::shape{side, side, 3}), b(a.shape());
      const fl::resize_options how{.horizontal_flip = random.chance(0.5)};
      decoder.decode_crop(file, fl::test::takes(box), hwc_view(a), how);
      decoder.decode_crop(marked.bytes, fl::test::takes(box), hwc_view(b), how);
      REQUIRE(largest_difference(a, b) == 0);
    }
  }
  CHECK(count > 300 / fl::test::place_step);
  CHECK(segments > 5 * count);
  CHECK(after < before + before / 50);
}

TEST_CASE("odd and damaged files of others are rewritten with the same pixels, passed through, or refused",
          "[shared]") {
  const auto folder = fl::test::test_data("jpeg");
  if (!folder) return;
  std::map<std::string, int> outcomes;
  fl::random_generator random(4);
  for (const char* const part : {"odd", "corrupt", "reference", "orientation"})
    for (const auto& path : fl::test::files_in(*folder + "/" + part)) {
      const bytes file = fl::read_file(path);
      INFO(path);
      try {
        const auto marked = fl::add_restart_markers(file, however_large);
        ++outcomes[marked.unchanged.empty() ? "rewritten" : "passed through"];
        if (!marked.unchanged.empty()) continue;
        CHECK(fl::same_jpeg_coefficients(file, marked.bytes));
        fl::jpeg_decoder decoder;
        const auto pixels = decoder.decode(file);
        REQUIRE(largest_difference(pixels, decoder.decode(marked.bytes)) == 0);
        for (int i = 0; i < 5; ++i)
          REQUIRE(gives_pixels_of(decoder, marked.bytes, pixels,
                                  random_box(pixels.shape()[0], pixels.shape()[1], random), {}));
      } catch (const fl::jpeg_error&) {
        ++outcomes["refused"];
      }
    }
  CHECK(outcomes["rewritten"] > 50);
  CHECK(outcomes["passed through"] > 0);
  CHECK(outcomes["refused"] > 20);
}
