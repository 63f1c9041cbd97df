// SPDX-License-Identifier: MIT
// The example that trains on a folder of images, on folders as they are found: with classes of one image, files that
// are no images, and nothing.
#include <feedline/core/tensor.hpp>
#include <feedline/image/jpeg_encoder.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "support/catch.hpp"
#include "support/program_outcome.hpp"
#include "support/temporary_folder.hpp"

#ifdef FEEDLINE_IMAGE_PNG
#include "support/png_writer.hpp"
#endif
#ifdef FEEDLINE_IMAGE_WEBP
#include "support/webp_writer.hpp"
#endif

namespace fl = feedline;
using fl::test::contents_of;
using result = fl::test::program_outcome;
using fl::test::temporary_folder;

namespace {

result run(const std::string& flags) {
  const temporary_folder folder;
  return fl::test::run_command(FEEDLINE_IMAGE_FOLDER " " + flags, folder);
}

void add_images(const temporary_folder& folder, const std::string& name, int count, std::uint8_t brightness) {
  std::filesystem::create_directory(folder / name);
  for (int i = 0; i < count; ++i) {
    fl::tensor<std::uint8_t> pixels(fl::shape{20, 30, 3});
    for (std::size_t k = 0; k < pixels.size(); ++k)
      pixels[k] = static_cast<std::uint8_t>(brightness + k * static_cast<std::size_t>(i) % 20);
    const auto jpeg = fl::encode_jpeg(pixels);
    folder.write(name + "/" + std::to_string(i) + ".jpg",
                 {reinterpret_cast<const char*>(jpeg.data()), jpeg.size()});
  }
}

} // namespace

TEST_CASE("image_folder learns the images that it makes, the same with any number of workers") {
  const result one = run("--workers 1"), many = run("--workers 5");
  INFO(one.log);
  CHECK(one.status == 0);
  CHECK(one.says("3 classes, 123 training images, 27 validation images, 0 skipped, accuracy 100.0 %"));
  CHECK(many.log == one.log);
}

TEST_CASE("image_folder uses each image in one part only, and trains on as many in each epoch") {
  const temporary_folder folder;
  add_images(folder, "dark", 40, 10);
  add_images(folder, "light", 40, 200);
  for (int i = 0; i < 8; ++i)
    add_images(folder, "single" + std::to_string(i), 1, 100); // some of them to train on
  for (const std::string epochs : {"1", "4"}) {
    const result r = run(folder.path() + " --epochs " + epochs);
    INFO(r.log);
    CHECK(r.status == 0);
    CHECK(r.says("epoch " + epochs + ": "));
    CHECK(r.says("10 classes, 72 training images, 16 validation images, 0 skipped, accuracy 87.5 %"));
  }
  CHECK(run("--seed 2 " + folder.path()).status == 0);
}

TEST_CASE("image_folder leaves out files that are no images, and names each of them once") {
  const temporary_folder folder;
  add_images(folder, "dark", 20, 10);
  add_images(folder, "light", 20, 200);
  const std::string whole = contents_of(folder / "dark/3.jpg");
  for (int i = 0; i < 10; ++i) folder.write("dark/text" + std::to_string(i), "no image");
  folder.write("light/empty.jpg", "");
  folder.write("light/cut.jpg", whole.substr(0, whole.size() / 4));
  const result r = run(folder.path() + " --epochs 2");
  INFO(r.log);
  CHECK(r.status == 0);
  CHECK(r.says("12 skipped"));
  for (const std::string name : {"dark/text0: ", "dark/text9: ", "light/empty.jpg: ", "light/cut.jpg: "}) {
    CHECK(r.says(name));
    CHECK(r.log.find(name) == r.log.rfind(name));
  }
}

#if defined(FEEDLINE_IMAGE_PNG) && defined(FEEDLINE_IMAGE_WEBP)
TEST_CASE("image_folder reads JPEG, PNG and WebP files, whatever their names say") {
  const temporary_folder folder;
  add_images(folder, "dark", 20, 10);
  add_images(folder, "light", 20, 200);
  fl::tensor<std::uint8_t> pixels(fl::shape{20, 30, 3});
  std::fill(pixels.begin(), pixels.end(), std::uint8_t{200});
  for (int i = 0; i < 20; ++i) {
    const auto file = i % 2 == 0 ? fl::test::write_png(fl::test::samples_of(pixels))
                                 : fl::test::write_webp(pixels, i % 4 == 1);
    folder.write("light/" + std::to_string(100 + i) +
                     (i % 3 == 0   ? ".jpg"
                      : i % 2 == 0 ? ".png"
                                   : ".webp"),
                 {reinterpret_cast<const char*>(file.data()), file.size()});
  }
  const result r = run(folder.path());
  INFO(r.log);
  CHECK(r.status == 0);
  CHECK(r.says(" images, 0 skipped, accuracy 100.0 %"));
}
#endif

TEST_CASE("image_folder counts neither hidden nor empty folders as classes, and no hidden files as images") {
  const temporary_folder folder;
  add_images(folder, "dark", 20, 10);
  add_images(folder, "light", 20, 200);
  add_images(folder, ".ipynb_checkpoints", 3, 100);
  add_images(folder, "__MACOSX", 3, 100);
  add_images(folder, "empty", 0, 0);
  folder.write("dark/.DS_Store", "no image");
  folder.write("dark/._1.jpg", "no image");
  const result r = run(folder.path());
  INFO(r.log);
  CHECK(r.status == 0);
  CHECK(r.says("2 classes, "));
  CHECK(r.says(" 0 skipped, "));
}

TEST_CASE("image_folder says what is missing in a folder without images") {
  const temporary_folder folder;
  const auto refuses = [](const std::string& flags, const std::string& words) {
    const result r = run(flags);
    INFO(r.log);
    CHECK(r.status == 1);
    CHECK(r.says(words));
  };
  refuses(folder / "nowhere", "nowhere");
  refuses(folder.path(), "no file in `" + folder.path() + "` matches `*/*`");
  add_images(folder, "dark", 0, 0);
  refuses(folder.path(), "no file in `" + folder.path() + "` matches `*/*`");
  folder.write("dark/text", "no image");
  refuses(folder.path(), "could be read");
  refuses("--epochs", "usage:");
  refuses("--speed 3", "usage:");
}
