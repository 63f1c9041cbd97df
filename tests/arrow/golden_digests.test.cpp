// SPDX-License-Identifier: MIT
// What the rows of Arrow files yield, in each order, on each rank, with failures and resumed: the same as when
// golden_digests.txt was written.
#include <cstdint>
#include <string>

#include <feedline/arrow/rows.hpp>
#include <feedline/source/global_shuffle.hpp>
#include <feedline/stage/map.hpp>

#include "support/arrow_writer.hpp"
#include "support/catch.hpp"
#include "support/golden_digests.hpp"

namespace fl = feedline;
using namespace feedline::test;

TEST_CASE("Rows of Arrow files are what they always were") {
  golden_digests golden(FEEDLINE_GOLDEN_DIGESTS);
  const inside_temporary_folder folder;
  for (int file = 0; file < 5; ++file) {
    arrow_writer writer({int64_part("x")});
    writer.batch({counted(100 * file, 100 * file + 6)})
        .batch({counted(100 * file + 50, 100 * file + 54 + 2 * file)});
    const std::string bytes = file == 2 ? writer.stream() : writer.file();
    folder.write("rows" + std::to_string(file) + ".arrow",
                 file == 3 ? bytes.substr(0, bytes.size() - 20) : bytes);
  }
  const auto value = [](const auto& row) { return *row; };
  const auto rows = fl::arrow_rows<std::int64_t>("rows*.arrow", {"x"});
  const auto whole = fl::arrow_rows<std::int64_t>("rows{0,1,4}.arrow", {"x"});
  golden.add("arrow_rows", rows | fl::map(value));
  golden.add("arrow_rows | global_shuffle", whole | fl::global_shuffle() | fl::map(value));
  golden.add("arrow_rows, one of them cut off | global_shuffle",
             fl::arrow_rows<std::int64_t>("rows{0,3}.arrow", {"x"}) | fl::global_shuffle() | fl::map(value));
  golden.check();
}
