// SPDX-License-Identifier: MIT
// Trains a classifier on a folder of JPEG, PNG and WebP files with one subfolder per class, and evaluates it after each
// epoch on the images that it doesn't train on. Usage: image_folder [FOLDER] [--epochs N] [--workers N] [--seed N]
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <stdlib.h>

#include <feedline/feedline.hpp>
#include <feedline/image.hpp>

namespace fl = feedline;
namespace fs = std::filesystem;
constexpr std::size_t side = 32;

struct example {
  fl::tensor<float, 3, side, side> pixels;
  std::size_t label;
};

/// The model has one for each class: an image belongs to the class whose mean is nearest.
struct mean_image {
  void add(std::span<const float> image) {
    ++images;
    for (std::size_t i = 0; i < image.size(); ++i) pixels[i] += (image[i] - pixels[i]) / images;
  }

  float distance(std::span<const float> image) const {
    float sum = images > 0 ? 0 : std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < image.size(); ++i) sum += (image[i] - pixels[i]) * (image[i] - pixels[i]);
    return sum;
  }

  std::array<float, 3 * side * side> pixels{};
  float images = 0;
};

void run(const std::string& folder, std::uint32_t epochs, std::size_t workers, std::uint64_t seed) {
  const auto images = fl::files(folder, "*/*"); // neither hidden ones nor those in hidden folders
  std::map<std::string, std::size_t> labels;    // numbers from 0, in the order of the names
  for (const std::string& image : (images | fl::prefetch(1000)).finite())
    labels[fs::path(image).parent_path().filename()];
  for (std::size_t next = 0; auto& [name, label] : labels) label = next++;
  const auto load = [&](const std::string& path, fl::batch_slot<example>& slot, const auto& crop, bool flip) {
    fl::decode_image_crop(fl::read_file(path), crop,
                          fl::chw_view(slot.get<&example::pixels>(), 3, side, side),
                          {.horizontal_flip = flip, .normalization = fl::imagenet_normalization});
    slot.get<&example::label>() = labels.at(fs::path(path).parent_path().filename());
  };
  const auto augment = [&](const std::string& path, fl::batch_slot<example>& slot, fl::context& context) {
    const auto crop = [&](std::size_t height, std::size_t width) {
      return fl::random_resized_crop{.scale = {0.4, 1}}(height, width, context.random);
    };
    load(path, slot, crop, context.random.chance(0.5));
  };
  const auto center = [&](const std::string& path, fl::batch_slot<example>& slot) {
    load(path, slot, fl::resized_center_crop{.short_side = 36, .side = side}, false);
  };
  // The part that an image is in follows from its class and its name, wherever the folder is.
  const auto key = [](const fs::path& p) { return (p.parent_path().filename() / p.filename()).string(); };
  const auto train = images | fl::global_shuffle() | fl::partition({80, 20}, 0, key) |
                     fl::batch_into<example>(32, augment, fl::workers{workers}, fl::name{"train"});
  const auto validation = images | fl::partition({80, 20}, 1, key) |
                          fl::batch_into<example>(32, center, fl::workers{workers}, fl::name{"validate"});

  std::vector<mean_image> model(labels.size());
  std::set<std::string> skipped; // an image that can't be read fails in every epoch
  const auto say = [&skipped](const fl::failure& f) {
    if (skipped.insert(f.origin).second) std::printf("skipped %s: %s\n", f.origin.c_str(), f.message.c_str());
  };
  auto training =
      train.finite({.seed = seed, .epochs = epochs, .on_error = fl::on_error::skip, .on_failure = say});
  std::size_t trained = 0, correct = 0, evaluated = 0;
  auto batch = training.next();
  for (std::uint32_t epoch = 0; epoch < epochs; ++epoch) {
    for (; batch && batch->epoch() == epoch; batch = training.next()) {
      trained += batch->size();
      for (std::size_t i = 0; i < batch->size(); ++i)
        model[batch->get<&example::label>()[i]].add(batch->get<&example::pixels>().at(i));
    }
    auto evaluation = validation.finite({.on_error = fl::on_error::skip, .on_failure = say});
    correct = evaluated = 0;
    for (const auto& b : evaluation) {
      evaluated += b.size();
      for (std::size_t i = 0; i < b.size(); ++i) {
        const auto pixels = b.get<&example::pixels>().at(i);
        const auto distance = [&](const mean_image& m) { return m.distance(pixels); };
        const auto nearest = std::ranges::min_element(model, {}, distance);
        correct += &*nearest == &model[b.get<&example::label>()[i]];
      }
    }
    std::printf("epoch %u: %zu of %zu validation images are right\n", epoch + 1, correct, evaluated);
  }
  if (trained == 0) throw std::runtime_error("none of the training images in " + folder + " could be read");
  const double accuracy = evaluated > 0 ? static_cast<double>(correct) / static_cast<double>(evaluated) : 0;
  std::printf("%zu classes, %zu training images, %zu validation images, %zu skipped, accuracy %.1f %%\n",
              labels.size(), trained / epochs, evaluated, skipped.size(), 100 * accuracy);
}

/// A data set to try it with: noise that has more red, green or blue.
std::string make_images() {
  std::string folder = fs::temp_directory_path() / "images-XXXXXX";
  if (!::mkdtemp(folder.data())) throw std::runtime_error("can't make the folder " + folder);
  fl::random_generator random(1);
  for (std::size_t number = 0; number < 150; ++number) {
    const fs::path name = fs::path(folder) / std::array{"red", "green", "blue"}[number % 3];
    fs::create_directory(name);
    fl::tensor<std::uint8_t> pixels(fl::shape{40, 48, 3});
    for (std::size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = static_cast<std::uint8_t>(random.below(i % 3 == number % 3 ? 256 : 200));
    const auto jpeg = fl::encode_jpeg(pixels);
    std::ofstream(name / (std::to_string(number) + ".jpg"), std::ios::binary)
        .write(reinterpret_cast<const char*>(jpeg.data()), static_cast<std::streamsize>(jpeg.size()));
  }
  return folder;
}

int main(int count, char** arguments) try {
  std::string folder;
  std::map<std::string, unsigned> numbers{{"--epochs", 3}, {"--workers", 2}, {"--seed", 1}};
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (numbers.contains(argument) && i + 1 < count)
      numbers[argument] = static_cast<unsigned>(std::stoul(arguments[++i]));
    else if (!argument.starts_with("--") && folder.empty()) folder = argument;
    else throw std::runtime_error("usage: image_folder [FOLDER] [--epochs N] [--workers N] [--seed N]");
  }
  const bool is_made = folder.empty();
  if (is_made) folder = make_images();
  run(folder, numbers["--epochs"], numbers["--workers"], numbers["--seed"]);
  if (is_made) fs::remove_all(folder);
} catch (const std::exception& error) {

  std::fprintf(stderr, "image_folder: %s\n", error.what());
  return 1;
}
