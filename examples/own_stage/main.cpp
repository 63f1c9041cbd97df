// SPDX-License-Identifier: MIT
// Custom stages: a packer, which cuts documents into sequences of equal length, and a reservoir, which
// chooses a few samples of each epoch.
// Usage: own_stage [--check]. `--check` shows how to test such classes.
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string_view>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/testing.hpp>

#include "packer.hpp"
#include "reservoir.hpp"

namespace fl = feedline;

namespace {

constexpr std::size_t length = 32;

/// Documents of 0 to 49 random tokens from 1 to 1000.
std::vector<std::vector<int>> make_documents(std::size_t count) {
  fl::random_generator random(1);
  std::vector<std::vector<int>> documents(count);
  for (auto& document : documents)
    for (std::uint64_t left = random.below(50); left > 0; --left)
      document.push_back(static_cast<int>(1 + random.below(1000)));
  return documents;
}

/// Throws a description of a broken promise of a stage.
void check() {
  fl::testing::check_stage([] { return packer<length>(); }, make_documents(20));
  std::vector<int> numbers(30);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int>(i);
  fl::testing::check_stage([] { return reservoir<int>(7); }, numbers);
  std::puts("packer and reservoir keep what the library promises");
}

void train() {
  const auto documents = fl::from(make_documents(1000)) | fl::global_shuffle();

  std::size_t tokens = 0, all = 0;
  for (const auto& batch : (documents | packer<length>() | fl::batch(16)).finite({.seed = 7}))
    for (const int token : batch.values()) { // a tensor [16, 32]
      tokens += token != packer<length>::mark;
      ++all;
    }
  std::printf("%zu tokens in %zu elements\n", tokens, all);

  std::size_t chosen = 0;
  for (const auto& document : (documents | reservoir<std::vector<int>>(10)).finite({.seed = 7})) {
    std::printf("%zu ", document.size());
    ++chosen;
  }
  std::printf("tokens in %zu chosen documents\n", chosen);
}

} // namespace

int main(int count, char** arguments) {
  try {
    if (count > 1 && std::string_view(arguments[1]) == "--check") check();
    else train();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "own_stage: %s\n", error.what());
    return 1;
  }
}
