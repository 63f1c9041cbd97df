// SPDX-License-Identifier: MIT
// For any bytes, the decoder returns an image or throws jpeg_error, and stays usable.
#include <feedline/image/jpeg_decoder.hpp>
#include <feedline/image/restart_markers.hpp>

#include "support/catch.hpp"
#include "support/jpeg_writer.hpp"
#include "support/printed.hpp"
#include "support/throws_saying.hpp"

#include <feedline/core/random.hpp>

#include <algorithm>
#include <cstring>

namespace fl = feedline;
using fl::test::gradient;
using fl::test::largest_difference;
using fl::test::throws_saying;
using fl::test::write_jpeg;

namespace {

constexpr std::uint64_t few_pixels = 1 << 16;
constexpr fl::jpeg_options strict{.max_pixels = few_pixels};
constexpr fl::jpeg_options keeping{.on_corrupt = fl::on_corrupt::keep, .max_pixels = few_pixels};
constexpr fl::jpeg_options keeping_upright{
    .apply_orientation = true, .on_corrupt = fl::on_corrupt::keep, .max_pixels = few_pixels};

struct outcome {
  bool decoded = false;
  std::string error = {};
};

outcome attempt(fl::jpeg_decoder& decoder, std::span<const std::byte> file, const fl::jpeg_options& options) {
  // A copy of the exact size, so that a sanitizer finds reads beyond the end.
  const std::vector<std::byte> copy(file.begin(), file.end());
  try { // a resized crop, which may fail or not, depending on the position of the damage
    const auto middle = [](std::size_t height, std::size_t width) {
      const auto h = static_cast<double>(height), w = static_cast<double>(width);
      return fl::crop_box{h / 3, w / 4, h / 2, w / 2};
    };
    fl::tensor<float, 3, 5, 3> part;
    decoder.decode_crop(copy, middle, chw_view(part), {}, options);
  } catch (const fl::jpeg_error&) {
  }
  try {
    const auto image = decoder.decode(copy, options);
    return {.decoded = image.size() > 0};
  } catch (const fl::jpeg_error& error) {
    return {.error = error.what()};
  }
}

bool settled(const outcome& result) { return result.decoded != (result.error.size() > 30); }

std::vector<std::vector<std::byte>> small_files() {
  std::vector<std::vector<std::byte>> files;
  const auto rgb = gradient(24, 24, 3);
  files.push_back(write_jpeg(rgb, {.quality = 60, .exif = fl::test::exif_payload(6)}));
  files.push_back(write_jpeg(rgb, {.quality = 60, .across = 2, .down = 2, .restart_rows = 1}));
  files.push_back(write_jpeg(rgb, {.quality = 60, .progressive = true}));
  files.push_back(write_jpeg(rgb, {.quality = 60, .interleaved = false}));
  files.push_back(write_jpeg(gradient(24, 24, 4), {.from = JCS_CMYK, .stored = JCS_YCCK, .quality = 60}));
  files.push_back(
      write_jpeg(gradient(24, 24, 1), {.from = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE, .quality = 60}));
#ifdef D_ARITH_CODING_SUPPORTED
  files.push_back(write_jpeg(rgb, {.quality = 60, .arithmetic = true}));
#endif
  return files;
}

std::size_t find_marker(const std::vector<std::byte>& file, int marker, std::size_t from = 0) {
  for (std::size_t i = from; i + 1 < file.size(); ++i)
    if (file[i] == std::byte{0xff} && file[i + 1] == static_cast<std::byte>(marker)) return i;
  FAIL("no such marker");
  return 0;
}

void set_side(std::vector<std::byte>& file, std::size_t offset, unsigned side) {
  const std::size_t frame = find_marker(file, 0xc0);
  file[frame + offset] = static_cast<std::byte>(side >> 8);
  file[frame + offset + 1] = static_cast<std::byte>(side & 0xff);
}

std::size_t last_scan(const std::vector<std::byte>& file) {
  std::size_t scan = 0;
  for (std::size_t i = 0; i + 1 < file.size(); ++i)
    if (file[i] == std::byte{0xff} && file[i + 1] == std::byte{0xda}) scan = i;
  return scan;
}

// Repeats the last scan.
std::vector<std::byte> with_more_scans(const std::vector<std::byte>& file, int count) {
  const auto from = file.begin() + static_cast<std::ptrdiff_t>(last_scan(file));
  std::vector<std::byte> result(file.begin(), file.end() - 2);
  for (int i = 0; i < count; ++i) result.insert(result.end(), from, file.end() - 2);
  result.insert(result.end(), file.end() - 2, file.end());
  return result;
}

} // namespace

TEST_CASE("files other than JPEGs are refused with a clear message") {
  fl::jpeg_decoder decoder;
  CHECK(throws_saying<fl::jpeg_error>("0 bytes", [&] { decoder.decode({}); }));
  const char text[] = "GIF89a, says the file";
  CHECK(throws_saying<fl::jpeg_error>("Not a JPEG", [&] { decoder.decode(std::as_bytes(std::span(text))); }));
  const auto refuses = [&](std::string_view begin, std::string_view sentence) {
    const std::vector<std::byte> file(std::as_bytes(std::span(begin)).begin(),
                                      std::as_bytes(std::span(begin)).end());
    return throws_saying<fl::jpeg_error>(sentence, [&] { decoder.decode(file); }) &&
           throws_saying<fl::jpeg_error>(sentence, [&] { decoder.read_header(file); }) &&
           throws_saying<fl::jpeg_error>(sentence, [&] { fl::add_restart_markers(file); });
  };
  CHECK(refuses("", "the file is empty (0 bytes)"));
  CHECK(refuses("GIF89a", "Not a JPEG file: it is a GIF image"));
  CHECK(refuses("\x89PNG\r\n\x1a\n and more", "Not a JPEG file: it is a PNG image"));
  CHECK(refuses(std::string_view("RIFF\x10\0\0\0WEBPVP8 ", 16), "it is a WebP image"));
  CHECK(refuses(std::string_view("BM\x36\x30\0\0\0\0\0\0\x36", 11), "it is a BMP image"));
  CHECK(refuses(std::string_view("II*\0\x08", 5), "it is a TIFF image"));
  CHECK(refuses(std::string_view("MM\0*", 4), "it is a TIFF image"));
  CHECK(refuses(std::string_view("\0\0\0\x18"
                                 "ftypheic",
                                 12),
                "it is a HEIC image"));
  CHECK(refuses(std::string_view("\0\0\0\x1c"
                                 "ftypavif",
                                 12),
                "it is an AVIF image"));
  CHECK(refuses("\n <!DOCTYPE HTML>\n<p>", "it is an HTML page"));
  CHECK(refuses("<Html lang=en>", "it is an HTML page"));
  CHECK(refuses("\xef\xbb\xbf<?xml?>", "it is an XML document"));
  CHECK(refuses("\x1f\x8b\x08", "it is gzip data"));
  CHECK(refuses("version https://git-lfs.github.com/spec/v1\n", "it is a Git LFS pointer"));
  CHECK(refuses("just text", "Not a JPEG file: starts with 0x6a 0x75"));
  CHECK(refuses("BM", "Not a JPEG file: starts with"));
  CHECK_THROWS_AS(fl::decode_jpeg(std::vector<std::byte>(1000)), fl::jpeg_error);
  CHECK_THROWS_AS(decoder.read_header(fl::test::bytes({0xff, 0xd8, 0xff, 0xd9})), fl::jpeg_error);
}

TEST_CASE("a file that is cut off anywhere is an error, and kept on request") {
  fl::jpeg_decoder decoder;
  for (const auto& file : small_files()) {
    REQUIRE(attempt(decoder, file, strict).decoded);
    bool all_fail = true, all_settled = true;
    std::size_t kept = 0;
    for (std::size_t size = 0; size < file.size(); ++size) {
      const auto part = std::span(file).first(size);
      all_fail = all_fail && attempt(decoder, part, strict).error.size() > 30;
      const auto result = attempt(decoder, part, keeping_upright);
      all_settled = all_settled && settled(result) && (!result.decoded || decoder.warnings() > 0);
      kept += result.decoded;
    }
    CHECK(all_fail);
    CHECK(all_settled);
    CHECK(kept > 10);
  }
}

TEST_CASE("warnings that lose no pixels are accepted on request, a file that is cut off isn't") {
  constexpr fl::jpeg_options whole{.on_corrupt = fl::on_corrupt::keep_whole, .max_pixels = few_pixels};
  fl::jpeg_decoder decoder;
  const auto accepts = [&](const std::vector<std::byte>& file, const std::vector<std::byte>& good,
                           std::string_view words) {
    CAPTURE(words);
    CHECK(throws_saying<fl::jpeg_error>(words, [&] { decoder.decode(file, strict); }));
    CHECK(throws_saying<fl::jpeg_error>("set jpeg_options::on_corrupt to on_corrupt::keep_whole",
                                        [&] { decoder.decode(file, strict); }));
    const auto expected = decoder.decode(good, strict);
    const auto found = decoder.decode(file, whole);
    CHECK(decoder.warnings() == 1);
    CHECK(largest_difference(found, expected) == 0);
    for (std::size_t size = 0; size < file.size() - 2 - 10; ++size) // the end mark, and surplus bytes
      if (attempt(decoder, std::span(file).first(size), whole).decoded)
        FAIL("a cut file was accepted: " << size);
  };
  const auto with = [](std::vector<std::byte> file, std::size_t at, int value) {
    file.at(at) = static_cast<std::byte>(value);
    return file;
  };
  const auto with_more = [](std::vector<std::byte> file, std::size_t at) {
    file.insert(file.begin() + static_cast<std::ptrdiff_t>(at), 10, std::byte{7});
    return file;
  };
  const auto good = write_jpeg(gradient(24, 24, 3), {.restart_rows = 1});
  const std::size_t scan = find_marker(good, 0xda);
  accepts(with_more(good, good.size() - 2), good, " extraneous bytes before marker 0xd9");
  accepts(with_more(good, find_marker(good, 0xdb)), good, "10 extraneous bytes before marker 0xdb");
  accepts(with(good, find_marker(good, 0xe0) + 9, 9), good, "JFIF");
  accepts(with(good, scan + 12, 0), good, "SOS parameters"); // the last coefficient of the scan
  const auto ycck = write_jpeg(gradient(24, 24, 4), {.from = JCS_CMYK, .stored = JCS_YCCK});
  accepts(with(ycck, find_marker(ycck, 0xee) + 15, 7), ycck, "Adobe");
}

TEST_CASE("a file without an end mark is accepted on request if all of its pixels are there") {
  constexpr fl::jpeg_options whole{.on_corrupt = fl::on_corrupt::keep_whole, .max_pixels = few_pixels};
  fl::jpeg_decoder decoder;
  auto files = small_files();
  files.push_back(
      write_jpeg(gradient(40, 40, 3), {.quality = 60, .across = 2, .down = 2, .progressive = true}));
  files.push_back(write_jpeg(gradient(40, 40, 3), {.quality = 60, .interleaved = false, .restart_rows = 2}));
  files.push_back(write_jpeg(gradient(48, 48, 3), {.quality = 60, .restart_interval = 1}));
  for (const auto& file : files) {
    const auto expected = decoder.decode(file);
    const auto arithmetic = fl::test::bytes({0xff, 0xc9});
    const bool has_arithmetic = !std::ranges::search(file, arithmetic).empty();
    std::size_t accepted = 0;
    bool all_right = true;
    for (std::size_t size = 0; size < file.size(); ++size) {
      const auto part = std::span(file).first(size);
      if (!attempt(decoder, part, whole).decoded) continue;
      ++accepted;
      all_right = all_right && largest_difference(decoder.decode(part, whole), expected) == 0 &&
                  decoder.warnings() == 1;
      const auto lower_right = [](std::size_t height, std::size_t width) {
        const auto h = static_cast<double>(height), w = static_cast<double>(width);
        return fl::crop_box{h / 2, w / 2, h / 2, w / 2};
      };
      for (const bool all :
           {true, false}) { // of the other part only segments between restart markers are read
        fl::tensor<std::uint8_t> found(expected.shape()), same(expected.shape());
        const auto crop = [&](std::size_t height, std::size_t width) {
          return all ? fl::whole_image(height, width) : lower_right(height, width);
        };
        decoder.decode_crop(part, crop, hwc_view(found), {}, whole);
        decoder.decode_crop(file, crop, hwc_view(same));
        all_right = all_right && largest_difference(found, same) == 0;
      }
    }
    CHECK(all_right);
    // These codes may end early, so what is missing can't be seen.
    CHECK(accepted == (has_arithmetic ? 0 : 2));
    const auto advice = [&](std::size_t missing, std::string_view words) {
      return throws_saying<fl::jpeg_error>(
          words, [&] { decoder.decode(std::span(file).first(file.size() - missing)); });
    };
    if (!has_arithmetic)
      CHECK(advice(2, "Premature end of JPEG file; to decode the file nevertheless, set "
                      "jpeg_options::on_corrupt to on_corrupt::keep_whole if only"));
  }
}

TEST_CASE("a file whose header has too few rows loses pixels") {
  auto file = write_jpeg(gradient(96, 64, 3), {});
  set_side(file, 5, 16);
  fl::jpeg_decoder decoder;
  CHECK(throws_saying<fl::jpeg_error>(" extraneous bytes before marker 0xd9", [&] {
    decoder.decode(file, {.on_corrupt = fl::on_corrupt::keep_whole});
  }));
  CHECK(decoder.decode(file, keeping).size() == 16 * 64 * 3);
}

TEST_CASE("a file that is cut off inside a skipped segment is an error, before the pixels and after "
          "them") {
  const auto file = write_jpeg(gradient(24, 24, 3), {.exif = std::vector<std::byte>(300)});
  const std::size_t skipped = find_marker(file, 0xe1);
  CHECK(throws_saying<fl::jpeg_error>("Premature end of JPEG file", [&] {
    fl::decode_jpeg(std::vector(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(skipped + 150)));
  }));

  auto longer = file;
  const auto comment = fl::test::bytes({0xff, 0xfe, 0, 6, 'e', 'n', 'd', '.'});
  longer.insert(longer.end() - 2, comment.begin(), comment.end());
  CHECK_NOTHROW(fl::decode_jpeg(longer));
  longer.resize(longer.size() - 5);
  CHECK(throws_saying<fl::jpeg_error>("Premature end of JPEG file", [&] { fl::decode_jpeg(longer); }));
}

TEST_CASE("flipped bits yield an image or an error, and the decoder stays usable") {
  fl::jpeg_decoder decoder;
  for (auto file : small_files()) {
    const auto expected = decoder.decode(file);
    bool all_settled = true;
    for (std::size_t at = 0; at < file.size(); ++at)
      for (const int flip : {0x01, 0x10, 0x80, 0xff}) {
        file[at] ^= static_cast<std::byte>(flip);
        all_settled = all_settled && settled(attempt(decoder, file, strict)) &&
                      settled(attempt(decoder, file, keeping_upright));
        file[at] ^= static_cast<std::byte>(flip);
      }
    CHECK(all_settled);
    CHECK(largest_difference(decoder.decode(file), expected) == 0);
  }
}

TEST_CASE("random damage of several kinds at once yields an image or an error") {
  fl::jpeg_decoder decoder;
  const auto files = small_files();
  fl::random_generator random(7);
  bool all_settled = true;
  for (int round = 0; round < 3000; ++round) {
    auto file = files[random.below(files.size())];
    for (std::uint64_t i = random.below(8); i > 0; --i)
      file[random.below(file.size())] = static_cast<std::byte>(random.below(256));
    const auto piece = [&] { return file.begin() + static_cast<std::ptrdiff_t>(random.below(file.size())); };
    if (random.chance(0.2)) file.erase(piece());
    if (random.chance(0.2))
      file.insert(piece(), {std::byte{0xff}, static_cast<std::byte>(0xc0 + random.below(64))});
    if (random.chance(0.2)) file.resize(random.below(file.size()));
    all_settled = all_settled && settled(attempt(decoder, file, random.chance(0.5) ? strict : keeping));
  }
  CHECK(all_settled);
}

TEST_CASE("an image over the pixel limit is refused, one at the limit isn't") {
  const auto file = write_jpeg(gradient(30, 40, 3));
  CHECK_NOTHROW(fl::decode_jpeg(file, {.max_pixels = 1200}));
  CHECK(
      throws_saying<fl::jpeg_error>("40 x 30 pixels", [&] { fl::decode_jpeg(file, {.max_pixels = 1199}); }));
  CHECK(throws_saying<fl::jpeg_error>("1199", [&] { fl::decode_jpeg(file, {.max_pixels = 1199}); }));
  CHECK_THROWS_AS(fl::jpeg_decoder().read_header(file, {.max_pixels = 1199}), fl::jpeg_error);
  CHECK_NOTHROW(fl::decode_jpeg(file, {.max_pixels = ~std::uint64_t{0}}));
}

TEST_CASE("by default a header of 65500 x 65500 pixels is refused") {
  auto file = write_jpeg(gradient(8, 8, 3));
  set_side(file, 5, 65500);
  set_side(file, 7, 65500);
  CHECK(throws_saying<fl::jpeg_error>("max_pixels", [&] { fl::decode_jpeg(file); }));
  CHECK(throws_saying<fl::jpeg_error>("max_pixels", [&] { fl::decode_jpeg(file, keeping); }));
}

TEST_CASE("an image with too many scans is refused, whether warnings are kept or not") {
  const auto progressive = write_jpeg(gradient(24, 24, 3), {.progressive = true}); // 10 scans
  CHECK_NOTHROW(fl::decode_jpeg(progressive, {.max_scans = 10}));
  CHECK(throws_saying<fl::jpeg_error>("max_scans", [&] { fl::decode_jpeg(progressive, {.max_scans = 9}); }));
  CHECK(throws_saying<fl::jpeg_error>("max_scans",
                                      [&] { fl::decode_jpeg(with_more_scans(progressive, 1000), keeping); }));
  const auto separate = write_jpeg(gradient(24, 24, 3), {.interleaved = false});
  CHECK(
      throws_saying<fl::jpeg_error>("max_scans", [&] { fl::decode_jpeg(with_more_scans(separate, 1000)); }));
  CHECK(throws_saying<fl::jpeg_error>("max_scans",
                                      [&] { fl::decode_jpeg(with_more_scans(separate, 1000), keeping); }));
}

TEST_CASE("an image with too many pixels in all of its scans is refused, one at the limit isn't") {
  // The default allows 20 scans of 20 megapixels, but at most 8 scans of the largest image.
  static_assert(fl::jpeg_options{}.max_scan_pixels >= 20 * 20'000'000u);
  static_assert(fl::jpeg_options{}.max_scan_pixels <= 8 * fl::jpeg_options{}.max_pixels);

  const bool progressive = GENERATE(true, false);
  const auto file = write_jpeg(gradient(30, 40, 3), {.progressive = progressive, .interleaved = progressive});
  const std::uint64_t all = (progressive ? 10 : 3) * 30 * 40;
  fl::jpeg_decoder decoder;
  fl::tensor<float, 3, 8, 8> pixels;
  const auto take = [&](std::span<const std::byte> bytes, const fl::jpeg_options& options) {
    decoder.decode_crop(bytes, fl::whole_image, chw_view(pixels), {}, options);
  };
  CHECK_NOTHROW(decoder.decode(file, {.max_scan_pixels = all}));
  CHECK_NOTHROW(take(file, {.max_scan_pixels = all}));
  for (const auto corrupt : {fl::on_corrupt::fail, fl::on_corrupt::keep}) {
    const fl::jpeg_options less{.on_corrupt = corrupt, .max_scan_pixels = all - 1};
    const std::string sentence = (progressive ? "10" : "3") +
                                 std::string(" or more scans of 40 x 30 pixels are more than "
                                             "jpeg_options::max_scan_pixels, ") +
                                 std::to_string(all - 1) + "; raise it";
    CHECK(throws_saying<fl::jpeg_error>(sentence, [&] { decoder.decode(file, less); }));
    CHECK(throws_saying<fl::jpeg_error>(sentence, [&] { take(file, less); }));
    // The limit applies where a scan begins, not where it ends.
    const auto cut = std::span(file).first(last_scan(file) + 16);
    CHECK(throws_saying<fl::jpeg_error>(sentence, [&] { decoder.decode(cut, less); }));
    CHECK(throws_saying<fl::jpeg_error>(sentence, [&] { take(cut, less); }));
  }
  CHECK_NOTHROW(decoder.decode(write_jpeg(gradient(30, 40, 3)), {.max_scan_pixels = 0})); // one scan
}

TEST_CASE("an image whose decoding takes too much memory is refused before it is allocated") {
  fl::tensor<std::uint8_t> gray(fl::shape{600, 500, 3});
  std::fill(gray.begin(), gray.end(), std::uint8_t{90});
  const auto plain = write_jpeg(gray), progressive = write_jpeg(gray, {.progressive = true}),
             separate = write_jpeg(gray, {.interleaved = false});
  REQUIRE(64 * std::max({plain.size(), progressive.size(), separate.size()}) < 600'000);
  fl::jpeg_decoder decoder;
  std::vector<std::uint8_t> pixels(gray.size());
  fl::tensor<float, 3, 8, 8> part;
  const auto crop = [&](std::span<const std::byte> file, const fl::jpeg_options& options) {
    decoder.decode_crop(file, fl::whole_image, chw_view(part), {}, options);
  };
  CHECK(throws_saying<fl::jpeg_error>(
      "takes up to 900000 bytes of memory, more than jpeg_options::max_bytes, 800000",
      [&] { decoder.decode(plain, {.max_bytes = 800'000}); }));
  CHECK_NOTHROW(decoder.decode(plain, {.max_bytes = 900'000}));
  CHECK_NOTHROW(decoder.decode_into(plain, pixels, {.max_bytes = 600'000}));
  CHECK_NOTHROW(crop(plain, {.max_bytes = 600'000}));
  for (const auto& file : {progressive, separate}) { // two bytes for each number of 600 x 504 pixels
    CHECK(
        throws_saying<fl::jpeg_error>("max_bytes", [&] { decoder.decode(file, {.max_bytes = 2'700'000}); }));
    CHECK_NOTHROW(decoder.decode(file, {.max_bytes = 2'800'000}));
    CHECK(throws_saying<fl::jpeg_error>(
        "max_bytes", [&] { decoder.decode_into(file, pixels, {.max_bytes = 1'800'000}); }));
    CHECK_NOTHROW(decoder.decode_into(file, pixels, {.max_bytes = 1'900'000}));
    CHECK(throws_saying<fl::jpeg_error>("max_bytes", [&] { crop(file, {.max_bytes = 1'800'000}); }));
    CHECK_NOTHROW(decoder.read_header(file, {.max_bytes = 0}));
  }
}

TEST_CASE(
    "a small file of very many pixels is refused by default, also where restart markers would be added") {
  auto file = write_jpeg(gradient(8, 8, 3), {.progressive = true});
  const std::size_t frame = find_marker(file, 0xc2);
  for (const std::size_t offset : {5u, 7u}) file[frame + offset] = std::byte{0x3f}; // 16136 x 16136
  CHECK(throws_saying<fl::jpeg_error>("jpeg_options::max_bytes", [&] { fl::decode_jpeg(file); }));
  fl::tensor<float, 3, 8, 8> part;
  CHECK(throws_saying<fl::jpeg_error>("jpeg_options::max_bytes",
                                      [&] { fl::decode_jpeg_crop(file, fl::whole_image, chw_view(part)); }));
  CHECK(throws_saying<fl::jpeg_error>("jpeg_options::max_bytes", [&] { fl::add_restart_markers(file); }));
}

TEST_CASE("samples of 12 bits are refused with a clear message") {
  auto deep = write_jpeg(gradient(8, 8, 3));
  deep[find_marker(deep, 0xc0) + 4] = std::byte{12};
  CHECK(throws_saying<fl::jpeg_error>("12", [&] { fl::decode_jpeg(deep); }));
}

TEST_CASE("unsupported kinds of JPEG are refused by name") {
  const auto [marker, kind] = GENERATE(
      table<int, std::string>({{0xc5, "Hierarchical JPEG (SOF type 0xc5)"},
                               {0xc6, "Hierarchical JPEG (SOF type 0xc6)"},
                               {0xc7, "Hierarchical lossless JPEG (SOF type 0xc7)"},
                               {0xc8, "An extension of JPEG (SOF type 0xc8)"},
                               {0xcb, "Lossless JPEG with arithmetic coding (SOF type 0xcb)"},
                               {0xcd, "Hierarchical JPEG with arithmetic coding (SOF type 0xcd)"},
                               {0xce, "Hierarchical JPEG with arithmetic coding (SOF type 0xce)"},
                               {0xcf, "Hierarchical lossless JPEG with arithmetic coding (SOF type 0xcf)"},
                               {0xf7, "JPEG-LS (SOF type 0xf7)"}}));
  auto file = write_jpeg(gradient(8, 8, 3));
  file[find_marker(file, 0xc0) + 1] = static_cast<std::byte>(marker);
  CHECK(throws_saying<fl::jpeg_error>(kind + " isn't supported; save the image as",
                                      [&] { fl::decode_jpeg(file); }));
}

TEST_CASE("a lossless JPEG is refused by name, unless libjpeg can read it") {
  auto file = write_jpeg(gradient(8, 8, 3));
  file[find_marker(file, 0xc0) + 1] = std::byte{0xc3};
#ifdef C_LOSSLESS_SUPPORTED
  CHECK_THROWS_AS(fl::decode_jpeg(file), fl::jpeg_error); // not really lossless
#else
  CHECK(throws_saying<fl::jpeg_error>("Lossless JPEG (SOF type 0xc3) isn't supported",
                                      [&] { fl::decode_jpeg(file); }));
#endif
}

TEST_CASE("a frame marker in the middle of a file is damage, not an unsupported kind of JPEG") {
  auto file = write_jpeg(gradient(24, 24, 3), {.progressive = true});
  const auto second = find_marker(file, 0xda, find_marker(file, 0xda) + 2);
  for (const int marker : {0xc5, 0xf7}) {
    file[second + 1] = static_cast<std::byte>(marker);
    CHECK(throws_saying<fl::jpeg_error>("Unsupported", [&] { fl::decode_jpeg(file); }));
    CHECK_FALSE(throws_saying<fl::jpeg_error>("save the image as", [&] { fl::decode_jpeg(file); }));
  }
}

TEST_CASE("the message for a warning says how to keep the image") {
  const std::string hint =
      "; to decode the file nevertheless, set jpeg_options::on_corrupt to on_corrupt::keep";
  const auto file = write_jpeg(gradient(24, 24, 3));
  auto longer = file;
  const std::vector<std::byte> nothing(3);
  longer.insert(longer.end() - 2, nothing.begin(), nothing.end());
  CHECK(throws_saying<fl::jpeg_error>("extraneous bytes before marker 0xd9" + hint,
                                      [&] { fl::decode_jpeg(longer); }));
  CHECK(largest_difference(fl::decode_jpeg(longer, keeping), fl::decode_jpeg(file)) == 0);
  CHECK(throws_saying<fl::jpeg_error>("Premature end of JPEG file" + hint,
                                      [&] { fl::decode_jpeg(std::span(file).first(file.size() - 4)); }));
  // … but not where that wouldn't help.
  CHECK_FALSE(throws_saying<fl::jpeg_error>("on_corrupt::keep",
                                            [&] { fl::decode_jpeg(std::span(file).subspan(1)); }));
}

TEST_CASE("an image with damaged EXIF data is decoded as stored") {
  const auto image = gradient(16, 24, 3);
  auto payload = fl::test::exif_payload(6);
  payload[30] = std::byte{77};
  for (std::size_t size = 0; size < payload.size(); ++size) {
    const auto file =
        write_jpeg(image, {.exif = {payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(size)}});
    CHECK(fl::decode_jpeg(file, {.apply_orientation = true}).shape() == image.shape());
  }
}

TEST_CASE("errors and warnings print nothing") {
  CHECK(fl::test::printed([] {
          fl::jpeg_decoder decoder;
          const auto file = small_files().front();
          attempt(decoder, std::span(file).first(file.size() / 2), strict);
          attempt(decoder, std::span(file).first(file.size() - 20), keeping);
          attempt(decoder, std::span(file).subspan(1), keeping);
        }).empty());
}

TEST_CASE("missing tables aren't taken from the image before") {
  fl::tensor<std::uint8_t> gray(fl::shape{32, 32, 3});
  std::fill(gray.begin(), gray.end(), std::uint8_t{90});
  const auto whole = fl::encode_jpeg(gray);
  for (const unsigned marker : {0xdbu, 0xc4u}) { // quantization, Huffman
    auto lacking = whole;
    for (std::size_t i = 0; i + 1 < lacking.size(); ++i)
      if (std::to_integer<unsigned>(lacking[i]) == 0xff &&
          std::to_integer<unsigned>(lacking[i + 1]) == marker)
        lacking[i + 1] = std::byte{0xef}; // an application's comment
    fl::jpeg_decoder fresh, used;
    CHECK(used.decode(whole).size() == gray.size());
    CHECK(used.decode(whole).size() == gray.size());
    const auto outcome = [&](fl::jpeg_decoder& decoder) -> std::string {
      try {
        return std::to_string(decoder.decode(lacking).size());
      } catch (const fl::jpeg_error& error) {
        return error.what();
      }
    };
    CHECK(outcome(used) == outcome(fresh));
    CHECK(used.decode(whole).size() == gray.size());
  }
}
