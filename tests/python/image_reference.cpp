// SPDX-License-Identifier: MIT
// What test_python_images.py compares with: the pipeline of the front page, in C++.
//
//   image_reference jpegs FOLDER COUNT                  draws pictures of different sizes
//   image_reference train OUT SEED BATCHES SHARD...     writes the images of that many batches: floats, random crops
//   image_reference eval OUT SHARD...                   writes all images in order: bytes, center crops
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/image.hpp>

namespace fl = feedline;

namespace {

constexpr std::size_t side = 24;

struct example {
  fl::tensor<float, 3, side, side> pixels;
};

void draw(const std::string& folder, int count) {
  for (int i = 0; i < count; ++i) {
    fl::random_generator random(static_cast<std::uint64_t>(i));
    fl::tensor<std::uint8_t> picture(fl::shape{40 + random.below(40), 40 + random.below(40), 3});
    std::uint8_t level = 100;
    for (std::uint8_t& value : picture)
      value = level = static_cast<std::uint8_t>(level + random.below(7) - 3);
    const std::vector<std::byte> jpeg = fl::encode_jpeg(picture);
    std::ofstream(folder + "/" + std::to_string(i) + ".jpg", std::ios::binary)
        .write(reinterpret_cast<const char*>(jpeg.data()), static_cast<std::streamsize>(jpeg.size()));
  }
}

template <class T>
void write(std::ofstream& file, const fl::tensor<T>& values) {
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(T)));
}

/// The options are those of small() in the test.
void train(const std::string& out, std::uint64_t seed, int batches, const std::vector<std::string>& shards) {
  const auto load = [](const fl::tar_sample& sample, fl::batch_slot<example>& slot, fl::context& context) {
    const auto crop = [&](std::size_t height, std::size_t width) {
      return fl::random_resized_crop{}(height, width, context.random);
    };
    fl::decode_jpeg_crop(
        sample["jpg"], crop, fl::chw_view(slot.get<&example::pixels>(), 3, side, side),
        {.horizontal_flip = context.random.chance(0.5), .normalization = fl::imagenet_normalization});
  };
  const auto pipeline = fl::tar_samples(shards) | fl::shuffle({.capacity = 6, .min_fill = 3}) |
                        fl::batch_into<example>(4, load, fl::workers{3}, fl::name{"decode"});
  auto loader = pipeline.infinite({.seed = seed});
  std::ofstream file(out, std::ios::binary);
  for (int i = 0; i < batches; ++i) write(file, loader.next().value().get<&example::pixels>());
}

void evaluate(const std::string& out, const std::vector<std::string>& shards) {
  std::ofstream file(out, std::ios::binary);
  for (const fl::tar_sample& sample : (fl::tar_samples(shards) | fl::prefetch(1)).finite()) {
    fl::tensor<std::uint8_t> pixels(fl::shape{side, side, 3});
    fl::decode_jpeg_crop(sample["jpg"], fl::resized_center_crop{27, side}, fl::hwc_view(pixels));
    write(file, pixels);
  }
}

} // namespace

int main(int count, char** arguments) {
  try {
    const std::vector<std::string> given(arguments + 1, arguments + count);
    if (given.at(0) == "jpegs") draw(given.at(1), std::stoi(given.at(2)));
    else if (given.at(0) == "train")
      train(given.at(1), std::stoull(given.at(2)), std::stoi(given.at(3)), {given.begin() + 4, given.end()});
    else evaluate(given.at(1), {given.begin() + 2, given.end()});
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "image_reference: %s\n", error.what());
    return 1;
  }
}
