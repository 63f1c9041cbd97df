// SPDX-License-Identifier: MIT
// Reads bytes from libFuzzer as compressed text and as a compressed shard. Also compresses them, because few random inputs
// have the right checksum. Start it with small zstd files and TAR files as the corpus.
#include <feedline/zstd.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "support/fuzz_compressed.hpp"
#include "support/zstd_writer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  feedline::test::try_opener(feedline::unzstd_stream, bytes, feedline::test::zstd(bytes, 1));
  return 0;
}
