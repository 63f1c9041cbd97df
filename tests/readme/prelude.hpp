// SPDX-License-Identifier: MIT
#pragma once
// What the blocks of the READMEs take for granted: headers, the name fl, and in the folder where a block runs two small TAR
// shards of photographs and one with a sound.
#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <memory_resource>
#include <numbers>
#include <optional>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/testing.hpp>

#include "support/tar_writer.hpp"

#ifdef FEEDLINE_WITH_IMAGE
#include <feedline/image.hpp>
#endif
#ifdef FEEDLINE_IMAGE_PNG
#include "support/png_writer.hpp"
#endif

namespace fl = feedline;

/// Stands for torch::from_blob and its tensor.
template <class T>
struct blob {
  T* data;
  std::vector<std::int64_t> sizes;
  std::function<void(void*)> deleter;
};

template <class T>
blob<T> from_blob(T* data, std::vector<std::int64_t> sizes, std::function<void(void*)> deleter) {
  return {data, std::move(sizes), std::move(deleter)};
}

/// birds.tar, with one sample 0.wav: 6 s of a tone of 1 kHz, at 32 kHz.
inline void make_sounds() {
  constexpr std::uint32_t rate = 32'000, frames = 6 * rate;
  std::string wav;
  const auto add = [&wav](std::uint32_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) wav += static_cast<char>(number >> (8 * i) & 255);
  };
  wav += "RIFF";
  add(36 + 2 * frames, 4);
  wav += "WAVEfmt ";
  add(16, 4);
  add(1, 2); // integers, of one channel
  add(1, 2);
  add(rate, 4);
  add(2 * rate, 4);
  add(2, 2); // bytes of a frame
  add(16, 2);
  wav += "data";
  add(2 * frames, 4);
  for (std::uint32_t i = 0; i < frames; ++i)
    add(static_cast<std::uint32_t>(std::lround(10'000 * std::sin(2 * std::numbers::pi * 1000 * i / rate))),
        2);
  fl::test::tar_writer tar;
  tar.add("0.wav", wav);
  std::ofstream("birds.tar", std::ios::binary) << tar.closed();
}

/// train-000000.tar and train-000001.tar, with 40 samples each: 000000.jpg, 000000.cls, 000000.png (a mask), ...
inline void make_shards() {
#ifdef FEEDLINE_WITH_IMAGE
  for (int shard = 0; shard < 2; ++shard) {
    fl::test::tar_writer tar;
    for (int i = 0; i < 40; ++i) {
      const int number = 40 * shard + i;
      fl::tensor<std::uint8_t> pixels({24, 32, 3});
      for (std::size_t k = 0; k < pixels.size(); ++k)
        pixels.data()[k] = static_cast<std::uint8_t>(static_cast<std::size_t>(number) * k);
      const std::vector<std::byte> jpeg = fl::encode_jpeg(pixels);
      const std::string name = std::to_string(1'000'000 + number).substr(1);
      tar.add(name + ".jpg", {reinterpret_cast<const char*>(jpeg.data()), jpeg.size()});
      tar.add(name + ".cls", std::to_string(number % 10));
#ifdef FEEDLINE_IMAGE_PNG
      fl::tensor<std::uint16_t> classes({24, 32, 1});
      for (std::size_t k = 0; k < classes.size(); ++k) classes[k] = static_cast<std::uint16_t>(k % 3);
      const std::vector<std::byte> mask = fl::test::write_png(classes, {.type = PNG_COLOR_TYPE_GRAY});
      tar.add(name + ".png", {reinterpret_cast<const char*>(mask.data()), mask.size()});
#endif
    }
    std::ofstream("train-00000" + std::to_string(shard) + ".tar", std::ios::binary) << tar.closed();
  }
#endif
}
