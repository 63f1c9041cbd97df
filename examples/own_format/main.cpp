// SPDX-License-Identifier: MIT
// A custom file format: writes files of blocks with checksums, one of them damaged, shuffles the blocks of all files and makes
// batches.
// Usage: own_format [--check]. `--check` shows how to test such a format.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include <feedline/feedline.hpp>
#include <feedline/testing.hpp>

#include "checked_blocks.hpp"

namespace fl = feedline;

namespace {

/// A folder of such files, which is removed when this object is destroyed.
struct temporary_files {
  explicit temporary_files(std::size_t blocks) {
    if (!::mkdtemp(folder.data())) throw std::runtime_error("can't create a folder like " + folder);
    for (const char* name : {"/a.blk", "/b.blk", "/c.blk"}) write(folder + name, blocks);
  }

  temporary_files(const temporary_files&) = delete;

  ~temporary_files() { std::filesystem::remove_all(folder); }

  static void write(const std::string& path, std::size_t blocks) {
    std::ofstream out(path, std::ios::binary);
    out << "blocks 1";
    for (std::size_t i = 0; i < blocks; ++i) {
      checked_blocks::block values;
      values.fill(static_cast<float>(i));
      const std::uint64_t checksum = checked_blocks::checksum(std::as_bytes(std::span(values)));
      out.write(reinterpret_cast<const char*>(values.data()), sizeof values);
      out.write(reinterpret_cast<const char*>(&checksum), sizeof checksum);
    }
  }

  std::string folder = "/tmp/own_format-XXXXXX";
};

/// Throws a description of a broken promise.
void check() {
  const temporary_files some(7), none(0);
  for (const std::string& folder : {some.folder, none.folder})
    fl::testing::check_source([&] { return fl::read_files(folder + "/*.blk", checked_blocks{}); },
                              {.has_budget = true});
  std::puts("checked_blocks keeps what the library promises");
}

void train() {
  const temporary_files data(100);
  std::fstream(data.folder + "/b.blk", std::ios::in | std::ios::out | std::ios::binary)
      .seekp(5000)
      .put('?'); // damages a block
  const auto pipeline =
      fl::read_files(data.folder + "/*.blk", checked_blocks{}) | fl::global_shuffle() | fl::batch(32);

  std::size_t blocks = 0;
  auto loader = pipeline.finite({.seed = 7, .epochs = 2, .on_error = fl::on_error::skip});
  for (const auto& batch : loader) blocks += batch.size(); // batch.values() is a tensor [32, 64]
  std::printf("%zu blocks; skipped: %s\n", blocks, loader.failures().at(0).message.c_str());
}

} // namespace

int main(int count, char** arguments) {
  try {
    if (count > 1 && std::string_view(arguments[1]) == "--check") check();
    else train();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "own_format: %s\n", error.what());
    return 1;
  }
}
