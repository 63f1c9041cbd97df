// SPDX-License-Identifier: MIT
// Decompression in the steady state allocates no memory per file.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/gzip/gunzip.hpp>

#include "support/catch.hpp"
#include "support/counted_allocations.hpp"
#include "support/gzip_writer.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

TEST_CASE("a decoder allocates nothing for a file that isn't larger than earlier ones") {
  const std::string large = gzip(lively_text(500'000)), small = gzip("a") + gzip("b"),
                    dense = gzip(std::string(400'000, 'x'));
  fl::gunzip_decoder decoder;
  decoder.decode(bytes_of(large));
  fl::gunzip_view(bytes_of(large));
  const std::uint64_t before = allocations;
  for (int i = 0; i < 5; ++i)
    for (const std::string* file : {&large, &small, &dense}) {
      decoder.decode(bytes_of(*file));
      fl::gunzip_view(bytes_of(*file));
    }
  CHECK(allocations == before);
}

TEST_CASE("decompressing games into batches doesn't allocate per game") {
  const watchdog guard("games in memory");
  std::vector<std::string> files;
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < 64; ++i) {
    files.push_back(gzip(lively_text(10'000 + 200 * i)));
    indices.push_back(i);
  }
  const auto length = [&](std::size_t i) { return fl::gunzip_view(bytes_of(files[i])).size(); };
  auto loader = (fl::from(indices) | fl::map(length, fl::workers{2}) | fl::batch(8)).infinite();
  std::uint64_t fewest = ~std::uint64_t{0};
  for (int epoch = 0; epoch < 40 && fewest > 7; ++epoch) {
    const std::uint64_t before = allocations;
    for (int i = 0; i < 8; ++i) loader.next();
    fewest = std::min<std::uint64_t>(fewest, allocations - before);
  }
  INFO(fewest << " allocations in the epoch with the fewest");
  CHECK(fewest <= 7); // for 64 games; the start of an epoch allocates a few times
}
