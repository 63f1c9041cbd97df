// SPDX-License-Identifier: MIT
#include <feedline/image/rand_augment.hpp>

#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <vector>

namespace fl = feedline;

namespace {

template <class T>
std::vector<T> augmented(const fl::rand_augment& augment, std::uint64_t key, float white) {
  fl::tensor<T, 3, 8, 9> image;
  for (std::size_t i = 0; i < image.size(); ++i)
    image[i] = static_cast<T>(white * static_cast<float>(i * 37 % 101) / 100);
  fl::random_generator random(key);
  augment(chw_view(image), random);
  return {image.begin(), image.end()};
}

} // namespace

TEST_CASE("the requested number of changes is made, each equally often") {
  fl::tensor<float, 3, 1, 1> image;
  fl::random_generator random(1);
  std::array<int, 3> often{};
  const auto counts = [&](std::size_t i) { return [&often, i](auto, auto&) { ++often[i]; }; };
  fl::apply_some(3000, chw_view(image), random, counts(0), counts(1), counts(2));
  CHECK(often[0] + often[1] + often[2] == 3000);
  for (const int n : often) CHECK((n > 900 && n < 1100));
  fl::apply_some(0, chw_view(image), random, [](auto, auto&) { FAIL("not requested"); });
}

TEST_CASE("augmentation depends only on the generator, and results stay in range") {
  std::set<std::vector<float>> different;
  for (std::uint64_t key = 0; key < 300; ++key) {
    const auto numbers = augmented<float>({}, key, 1);
    CHECK(numbers == augmented<float>({}, key, 1));
    CHECK(std::all_of(numbers.begin(), numbers.end(), [](float v) { return v >= 0 && v <= 1; }));
    different.insert(numbers);
    // The same for bytes.
    const auto bytes = augmented<std::uint8_t>({}, key, 255);
    CHECK(bytes == augmented<std::uint8_t>({}, key, 255));
  }
  CHECK(different.size() > 100);
}

TEST_CASE("at magnitude 0 only changes without a magnitude affect the image") {
  std::set<std::vector<float>> different;
  for (std::uint64_t key = 0; key < 300; ++key)
    different.insert(augmented<float>({.changes = 1, .magnitude = 0}, key, 1));
  // Unchanged, posterized to bytes, solarized at white, stretched, equalized; contrast and saturation to a
  // rounding error
  CHECK(different.size() <= 7);
}
