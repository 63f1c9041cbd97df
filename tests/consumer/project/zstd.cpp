// SPDX-License-Identifier: MIT
#include <fstream>
#include <string>

#include <feedline/feedline.hpp>
#include <feedline/zstd.hpp>

int main() {
  const std::string frame("\x28\xb5\x2f\xfd\x20\x02\x11\x00\x00"
                          "a\n",
                          11); // a block of two bytes as they are
  std::ofstream("uses_zstd.zst", std::ios::binary) << frame;
  auto loader = feedline::lines("uses_zstd.zst", {.decompress = {feedline::unzstd_stream}}).finite();
  auto shards = feedline::tar_samples("uses_zstd.zst", {.decompress = {feedline::unzstd_stream}}) |
                feedline::prefetch(1);
  try {
    shards.finite().next();
    return 1;
  } catch (const feedline::pipeline_error&) { // it isn't TAR
  }
  return loader.next() == "a" && !loader.next() ? 0 : 1;
}
