// SPDX-License-Identifier: MIT
// A custom source, a class with size() and at(): reads the rows of a matrix from a mapped file, shuffles them
// and makes batches.
// Usage: own_source [--check]. `--check` shows how to test such a class.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include <feedline/feedline.hpp>
#include <feedline/testing.hpp>

#include "matrix_rows.hpp"

namespace fl = feedline;

namespace {

constexpr std::size_t columns = 4;

/// A file that is removed when this object is destroyed.
struct temporary_matrix {
  explicit temporary_matrix(std::size_t rows) {
    const int file = ::mkstemp(path.data());
    if (file < 0) throw std::runtime_error("can't create a file like " + path);
    ::close(file);
    std::ofstream out(path, std::ios::binary);
    for (std::size_t i = 0; i < rows * columns; ++i) {
      const auto value = static_cast<float>(i);
      out.write(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }

  temporary_matrix(const temporary_matrix&) = delete;

  ~temporary_matrix() { std::remove(path.c_str()); }

  std::string path = "/tmp/own_source-XXXXXX";
};

/// Throws a description of a broken promise of the source.
void check() {
  const temporary_matrix matrix(23), empty(0);
  for (const std::string& path : {matrix.path, empty.path})
    fl::testing::check_source([path] { return matrix_rows<columns>(path); }, {.has_budget = true});
  std::puts("matrix_rows keeps what the library promises");
}

void train() {
  const temporary_matrix matrix(1000);
  const auto pipeline = matrix_rows<columns>(matrix.path) | fl::global_shuffle() | fl::batch(64);

  std::size_t batches = 0;
  double sum = 0;
  for (const auto& batch : pipeline.finite({.seed = 7, .epochs = 2})) {
    for (const float x : batch.values()) sum += static_cast<double>(x); // a tensor [64, 4]
    ++batches;
  }
  std::printf("%zu batches, mean %.1f\n", batches, sum / (2 * 1000 * columns));
}

} // namespace

int main(int count, char** arguments) {
  try {
    if (count > 1 && std::string_view(arguments[1]) == "--check") check();
    else train();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "own_source: %s\n", error.what());
    return 1;
  }
}
