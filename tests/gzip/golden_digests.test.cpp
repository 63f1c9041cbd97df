// SPDX-License-Identifier: MIT
// What compressed lines and shards yield, on each rank, with failures and resumed: the same as when golden_digests.txt was
// written.
#include <string>

#include <feedline/gzip.hpp>
#include <feedline/source/interleave.hpp>
#include <feedline/source/lines.hpp>
#include <feedline/source/tar.hpp>

#include "support/catch.hpp"
#include "support/golden_digests.hpp"
#include "support/gzip_writer.hpp"
#include "support/tar_writer.hpp"

namespace fl = feedline;
using namespace feedline::test;

TEST_CASE("Compressed lines and shards are what they always were") {
  golden_digests golden(FEEDLINE_GOLDEN_DIGESTS);
  const inside_temporary_folder folder;
  for (int file = 0; file < 4; ++file) {
    const std::string number = std::to_string(file);
    std::string text;
    tar_writer tar;
    for (int i = 0; i < 9 + 2 * file; ++i) {
      text += "line " + std::to_string(i) + " of " + number + "\n";
      tar.add("sample" + std::to_string(i) + ".txt", "text " + std::to_string(i * file));
    }
    // Without compression, so that the bytes don't depend on the library.
    const std::string lines = gzip(text, 0), shard = gzip(tar.closed(), 0);
    folder.write("text" + number + ".txt.gz", lines);
    folder.write("shard" + number + ".tar.gz", file == 2 ? shard.substr(0, shard.size() - 12) : shard);
  }
  const fl::lines_options gunzip_lines{.decompress = {fl::gunzip_stream}};
  golden.add("lines", fl::lines("text*.gz", gunzip_lines));
  golden.add("lines | interleave", fl::lines("text*.gz", gunzip_lines) | fl::interleave(2));
  golden.add("tar_samples", fl::tar_samples("shard*.gz", {.decompress = {fl::gunzip_stream}}));
  golden.check();
}
