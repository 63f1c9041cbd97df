// SPDX-License-Identifier: MIT
// The memory that reading takes in the long run.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/arrow.hpp>

#include "support/arrow_writer.hpp"
#include "support/catch.hpp"
#include "support/counted_allocations.hpp"
#include "support/temporary_folder.hpp"

namespace fl = feedline;
using namespace feedline::test;

TEST_CASE("a dictionary that grows with each batch takes memory in proportion to the file") {
  const auto bytes_for = [](std::int32_t deltas) {
    arrow_part part = text_part("x");
    part.dictionary = 1;
    arrow_writer writer({part});
    for (std::int32_t i = 0; i < deltas; ++i)
      writer.dictionary(1, text_data({std::to_string(i)}), i > 0)
          .batch(std::vector{number_data<std::int32_t>({i, 0})});
    const temporary_folder folder;
    const auto path = folder.write("a", writer.stream());
    auto source = fl::arrow_rows<std::string_view>({path}, {"x"}).source();
    source.start_epoch({});
    const std::uint64_t before = allocated_bytes;
    std::int32_t rows = 0;
    while (source.next()) ++rows;
    CHECK(rows == 2 * deltas);
    return allocated_bytes - before;
  };
  const std::uint64_t few = bytes_for(500);
  CHECK(bytes_for(4'000) < 12 * few); // 8 times, and what lists allocate as they grow
}
