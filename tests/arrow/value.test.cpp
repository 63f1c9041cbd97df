// SPDX-License-Identifier: MIT
#include <feedline/arrow/value.hpp>

#include <feedline/arrow/rows.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/arrow_writer.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace fl = feedline;
using namespace feedline::test;
using Catch::Contains;

namespace {

std::vector<fl::arrow_row<fl::arrow_value>> read(const std::string& bytes) {
  const temporary_folder folder;
  auto source = fl::arrow_rows<fl::arrow_value>({folder.write("a", bytes)}, {"x"}).source();
  source.start_epoch({});
  std::vector<fl::arrow_row<fl::arrow_value>> rows;
  while (auto row = source.next()) rows.push_back(std::move(*row));
  return rows;
}

} // namespace

TEST_CASE("a default-constructed value is null") {
  const fl::arrow_value none;
  CHECK(none.is_null());
  CHECK(none.type() == fl::arrow_type::null);
  CHECK(none.size() == 0);
  CHECK_FALSE(none.as<std::optional<int>>());
  CHECK_THROWS_AS(none.as<int>(), fl::arrow_error);
}

TEST_CASE("numbers and texts are read as types that hold them") {
  const auto rows =
      read(arrow_writer({int64_part("x")}).batch({number_data<std::int64_t>({5, std::nullopt})}).stream());
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]->type() == fl::arrow_type::integer);
  CHECK(rows[0]->field()->bits == 64);
  CHECK(rows[0]->as<std::int64_t>() == 5);
  CHECK_THROWS_WITH(rows[0]->as<std::int32_t>(),
                    Contains("the value is of type int64, not a number that int32 holds exactly"));
  CHECK_THROWS_WITH(rows[0]->as<std::string_view>(), Contains("the value is of type int64, not text"));
  CHECK(rows[1]->is_null());
  CHECK(rows[1]->type() == fl::arrow_type::null);
  CHECK_FALSE(rows[1]->field());
  CHECK_THROWS_WITH(rows[1]->as<std::int64_t>(), Contains("the value is null"));
  CHECK_FALSE(rows[1]->as<std::optional<std::int64_t>>());
}

TEST_CASE("lists of structs are read element by element") {
  const arrow_part part = list_part("x", struct_part("e", {text_part("t"), int64_part("n")}));
  arrow_data data = data_of_validity({true, false, true});
  data.buffers.push_back(raw_bytes(std::vector<std::int32_t>{0, 2, 2, 3}));
  data.append(struct_data({true, false, true},
                          {text_data({"a", "b", std::nullopt}), number_data<std::int64_t>({1, 2, 3})}));
  const auto rows = read(arrow_writer({part}).batch(data).stream());
  REQUIRE(rows.size() == 3);
  REQUIRE(rows[0]->size() == 2);
  CHECK((*rows[0])[0].size() == 2);
  CHECK((*rows[0])[0][0].as<std::string_view>() == "a");
  CHECK((*rows[0])[0][1].as<std::int64_t>() == 1);
  CHECK((*rows[0])[1].is_null());
  CHECK(rows[1]->is_null());
  CHECK(rows[1]->size() == 0);
  CHECK((*rows[2])[0][0].is_null());
  CHECK((*rows[2])[0][1].as<std::optional<std::int64_t>>() == 3);
  CHECK_THROWS_WITH((*rows[2])[1], Contains("there is no element 1; the value has 1"));
}
