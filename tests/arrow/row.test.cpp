// SPDX-License-Identifier: MIT
#include <feedline/arrow/row.hpp>

#include <feedline/arrow/rows.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/arrow_writer.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

struct clip {
  std::span<const std::byte> audio;
  std::optional<std::int64_t> label;
};

struct with_map {
  std::map<int, int> numbers;
};

template <class Row>
constexpr bool can_be_row = fl::detail::row_fields<Row>::exist;

static_assert(can_be_row<clip> && can_be_row<int> && can_be_row<std::optional<std::string_view>>);
static_assert(can_be_row<std::pair<float, bool>> && can_be_row<std::tuple<fl::arrow_value>>);
static_assert(can_be_row<std::array<std::byte, 16>>);
static_assert(!can_be_row<with_map> && !can_be_row<std::string*> && !can_be_row<char> &&
              !can_be_row<std::span<std::byte>>);
static_assert(std::is_nothrow_move_constructible_v<fl::arrow_row<clip>>);
static_assert(!std::is_default_constructible_v<fl::arrow_row<clip>>);

template <class Row>
constexpr bool dangles = requires(Row&& row) { *std::move(row); };
static_assert(!dangles<fl::arrow_row<clip>>, "views of a destroyed row");

std::vector<fl::arrow_row<std::string_view>> read(const std::string& path, const char* column) {
  auto source = fl::arrow_rows<std::string_view>({path}, {column}).source();
  source.start_epoch({});
  std::vector<fl::arrow_row<std::string_view>> rows;
  while (auto row = source.next()) rows.push_back(std::move(*row));
  return rows;
}

} // namespace

TEST_CASE("identity() depends on file, row and columns, and is the same in each run") {
  const temporary_folder folder;
  const auto texts = text_data({"a", "a"});
  const std::string bytes = arrow_writer({text_part("x"), text_part("y")}).batch({texts, texts}).stream();
  const std::string path = folder.write("a", bytes), other = folder.write("b", bytes);
  const auto rows = read(path, "x");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].identity() == read(path, "x")[0].identity());
  CHECK(rows[0].identity() != rows[1].identity());
  CHECK(rows[0].identity() != read(path, "y")[0].identity());
  CHECK(rows[0].identity() != read(other, "x")[0].identity());
}

TEST_CASE("a copy of a row keeps the memory of its views") {
  std::optional<fl::arrow_row<std::string_view>> copy;
  {
    const temporary_folder folder;
    const auto text = text_data({std::string(40'000, 'q')});
    copy = read(folder.write("a", arrow_writer({text_part("x")}).batch({text}).stream()), "x")[0];
  }
  CHECK(**&*copy == std::string(40'000, 'q'));
  CHECK((*copy)->size() == 40'000);
}
