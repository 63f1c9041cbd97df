// SPDX-License-Identifier: MIT
// Reads bytes from libFuzzer as a gzip file and as a compressed shard. Also compresses them to a shard,
// because few random inputs have the right checksum. Start it with files of data/leela and data/tar as the
// corpus: fuzz_gzip NEW_FOLDER data/leela/v6 data/tar
#include <feedline/gzip.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <sys/mman.h>
#include <unistd.h>

#include "support/gzip_writer.hpp"

namespace fl = feedline;

namespace {

constexpr std::size_t most = 1 << 20;

void read_shard(std::string_view bytes) {
  static const int file = ::memfd_create("fuzz", 0);
  if (::ftruncate(file, 0) != 0 ||
      ::pwrite(file, bytes.data(), bytes.size(), 0) != static_cast<::ssize_t>(bytes.size()))
    return;
  static volatile std::size_t sum = 0;
  fl::tar_gz_samples source("/proc/self/fd/" + std::to_string(file), {.max_sample_bytes = most});
  source.start_epoch({});
  for (int left = 200; left > 0; --left) {
    try {
      const auto sample = source.next();
      if (!sample) break;
      for (const fl::tar_field& field : *sample)
        for (const std::byte b : field.bytes) sum = sum + std::to_integer<std::size_t>(b);
      sum = sum + sample->key().size() + sample->origin().size();
    } catch (const fl::tar_error&) {
    }
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    static_cast<void>(fl::gunzip(fl::test::bytes_of(text), {.max_output_bytes = most}));
  } catch (const fl::gzip_error&) {
  }
  read_shard(text);
  read_shard(fl::test::gzip(text, 1));
  return 0;
}
