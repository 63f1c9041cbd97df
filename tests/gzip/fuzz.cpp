// SPDX-License-Identifier: MIT
// Reads bytes from libFuzzer as a gzip file, as compressed text and as a compressed shard. Also compresses them, because few
// random inputs have the right checksum. Start it with files of data/leela and data/tar as the corpus:
// fuzz_gzip NEW_FOLDER data/leela/v6 data/tar
#include <feedline/gzip.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/expect.hpp"
#include "support/fuzz_compressed.hpp"
#include "support/gzip_writer.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

void unzip(std::string_view file) {
  try {
    const std::vector<std::byte> contents =
        fl::gunzip(bytes_of(file), {.max_output_bytes = most_decompressed});
    const auto [text, has_problem] = decompressed(fl::gunzip_stream, file, 1 << 16);
    expect(has_problem || text == text_of(contents)); // libdeflate overlooks some damage of headers
  } catch (const fl::gzip_error&) {
  }
}

std::vector<std::string> gzip_shard_of(std::string_view bytes) {
  const std::string path = path_of(bytes);
  return results_in_order<fl::tar_error>(path,
                                         fl::tar_gz_samples(path, {.max_sample_bytes = most_decompressed}));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string file = gzip(bytes, 1);
  unzip(bytes);
  gzip_shard_of(bytes);
  expect(gzip_shard_of(file) == shard_of(bytes, {}));
  try_opener(fl::gunzip_stream, bytes, file);
  return 0;
}
