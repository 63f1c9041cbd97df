// SPDX-License-Identifier: MIT
// JPEGs that other programs wrote, and the pixels that other decoders read from them.
#include <feedline/image/jpeg_decoder.hpp>
#include <feedline/source/files.hpp>

#include "support/catch.hpp"
#include "support/files_in.hpp"
#include "support/jpeg_writer.hpp"
#include "support/npy.hpp"
#include "support/png_image.hpp"
#include "support/test_data.hpp"

#include <filesystem>
#include <map>
#include <string>

namespace fl = feedline;
namespace fs = std::filesystem;
using fl::test::files_in;
using fl::test::largest_difference;
using fl::test::test_data;

namespace {

constexpr fl::jpeg_options keeping{.on_corrupt = fl::on_corrupt::keep};
constexpr fl::jpeg_options upright{.apply_orientation = true};

double mean_difference(const fl::tensor<std::uint8_t>& a, const fl::tensor<std::uint8_t>& b) {
  if (!(a.shape() == b.shape())) return 256;
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::abs(int{a[i]} - int{b[i]});
  return sum / static_cast<double>(a.size());
}

} // namespace

TEST_CASE("reference JPEGs have the pixels of the PNGs next to them", "[shared]") {
  const auto folder = test_data("jpeg/reference");
  if (!folder) return;
  // Gray that is sampled 2 x 2 in an image of 24 x 16, and CMYK: other decoders round differently. All other
  // images are equal.
  const std::map<std::string, int> tolerances{{"grayscale_24x16_sampling2x2", 1}, {"jpg-cmyk-2", 1}};
  int compared = 0, lossless = 0;
  fl::jpeg_decoder decoder;
  for (const auto& png : files_in(*folder, ".png")) {
    const std::string name = png.stem().string();
    const auto jpeg = fs::path(png).replace_extension(".jpg");
    if (!fs::exists(jpeg)) continue;
    INFO(name);
    const auto file = fl::read_file(jpeg);
    const auto expected = fl::test::read_png(fl::read_file(png));
    // A file without its first scan: libjpeg regards it as damaged, but decodes the same pixels.
    if (name == "progressive-missing-dc") CHECK_THROWS_AS(decoder.decode(file), fl::jpeg_error);
    try {
      const auto image = decoder.decode(file, keeping);
      const auto tolerance = tolerances.find(name);
      CHECK(largest_difference(image, expected) <= (tolerance == tolerances.end() ? 0 : tolerance->second));
      ++compared;
    } catch (const fl::jpeg_error& error) {
      // libjpeg-turbo reads lossless files from version 3 on; of these, some have more than 8 bits.
      const std::string text = error.what();
      CHECK((name == "XA1" || name.starts_with("jpeg_lossless")));
      CHECK((text.find("Lossless JPEG (SOF type 0xc3)") != text.npos ||
             text.find("bits; only 8") != text.npos));
      ++lossless;
    }
  }
  CHECK(compared >= 19);
  CHECK(compared + lossless >= 26);
}

TEST_CASE("JPEGs with EXIF orientations have the pixels of another decoder that turns them upright",
          "[shared]") {
  const auto folder = test_data("jpeg/orientation");
  if (!folder) return;
  const auto arrays = files_in(*folder, ".npy");
  CHECK(arrays.size() >= 5);
  for (const auto& array : arrays) {
    INFO(array);
    const auto image = fl::decode_jpeg(fl::read_file(fs::path(array).replace_extension(".jpg")), upright);
    CHECK(largest_difference(image, fl::test::read_npy(fl::read_file(array))) == 0);
  }
}

TEST_CASE("a photo saved in several orientations is the same photo", "[shared]") {
  const auto folder = test_data("jpeg/odd");
  if (!folder) return;
  const auto decode = [&](const char* name) {
    return fl::decode_jpeg(fl::read_file(*folder + "/" + name), upright);
  };
  const auto landscape = decode("Landscape_1.jpg"), portrait = decode("Portrait_1.jpg");
  CHECK(landscape.shape() == fl::shape{1200, 1800, 3});
  CHECK(portrait.shape() == fl::shape{1800, 1200, 3});
  CHECK(mean_difference(decode("Landscape_4.jpg"), landscape) < 6);
  CHECK(mean_difference(decode("Landscape_6.jpg"), landscape) < 6);
  CHECK(mean_difference(decode("Portrait_4.jpg"), portrait) < 6);
  CHECK(mean_difference(decode("Portrait_5.jpg"), portrait) < 6);
}

TEST_CASE("odd and corrupt JPEGs yield an image or an error, and the decoder stays usable", "[shared]") {
  const std::string kind = GENERATE("odd", "corrupt", "reference", "orientation");
  const auto folder = test_data("jpeg/" + kind);
  if (!folder) return;
  fl::jpeg_decoder decoder;
  const auto good = fl::test::write_jpeg(fl::test::gradient(30, 30, 3));
  const auto expected = decoder.decode(good);
  std::map<bool, int> outcomes;
  for (const auto* extension : {".jpg", ".jpeg"})
    for (const auto& path : files_in(*folder, extension))
      for (const auto& options : {fl::jpeg_options{}, upright, keeping,
                                  fl::jpeg_options{.color = fl::pixel_color::gray,
                                  .apply_orientation = true,
                                  .on_corrupt = fl::on_corrupt::keep}}) {
        INFO(path);
        const auto file = fl::read_file(path);
        try {
          const auto image = decoder.decode(file, options);
          CHECK(image.size() > 0);
          CHECK((decoder.warnings() == 0 || options.on_corrupt == fl::on_corrupt::keep));
          CHECK(decoder.read_header(file, options).shape() == image.shape());
          ++outcomes[true];
        } catch (const fl::jpeg_error& error) {
          CHECK(std::string(error.what()).size() > 35);
          ++outcomes[false];
        }
        CHECK(largest_difference(decoder.decode(good), expected) == 0);
      }
  CHECK(outcomes[true] > 0);
  if (kind != "orientation") CHECK(outcomes[false] > 0);
}
