// SPDX-License-Identifier: MIT
// Columns of views, fixed-size lists, dates and times, decimals, maps, and dictionaries of any type.
#include <feedline/arrow/rows.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <optional>
#include <ratio>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <feedline/source/global_shuffle.hpp>
#include <feedline/testing.hpp>

#include "support/arrow_writer.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace fl = feedline;
using namespace feedline::test;
using namespace std::chrono_literals;
using Catch::Contains;
using texts = std::vector<std::optional<std::string>>;
using std::chrono::local_time;
using std::chrono::sys_time;

namespace {

/// The rows of column x, which keep the memory of views.
std::vector<fl::arrow_row<fl::arrow_value>> rows_of(const std::string& bytes,
                                                    const std::string& column = "x") {
  const temporary_folder folder;
  auto source = fl::arrow_rows<fl::arrow_value>({folder.write("a", bytes)}, {column}).source();
  source.start_epoch({});
  std::vector<fl::arrow_row<fl::arrow_value>> rows;
  while (auto row = source.next()) rows.push_back(std::move(*row));
  return rows;
}

/// All values of column x. To compile a source for each type would take most of this file's compile time.
template <class T>
std::vector<T> read_all(const std::string& bytes, const std::string& column = "x") {
  std::vector<T> all;
  for (const auto& row : rows_of(bytes, column)) all.push_back(row->as<T>());
  return all;
}

/// Why a value isn't a T, or why the file can't be read.
template <class T>
std::string why_not(const std::string& bytes, const std::string& column = "x") {
  try {
    read_all<T>(bytes, column);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::string column_of(arrow_part part, const arrow_data& data) {
  part.name = "x";
  return arrow_writer({part}).batch(std::vector{data}).stream();
}

arrow_part part_of(type_kind kind, int size = 0, std::vector<arrow_part> children = {}) {
  return {"x", kind, size, true, std::move(children)};
}

arrow_part of_unit(type_kind kind, int unit, int bits = 64, std::string timezone = "") {
  arrow_part part = part_of(kind, bits);
  part.unit = unit;
  part.timezone = std::move(timezone);
  return part;
}

arrow_part decimal_part(int bits, int scale) {
  arrow_part part = part_of(type_kind::decimal, bits);
  part.precision = bits / 4;
  part.scale = scale;
  return part;
}

const arrow_part views = part_of(type_kind::utf8_view);
const arrow_part float_part{"e", type_kind::floating_point, 1};
const arrow_part three_floats = part_of(type_kind::fixed_size_list, 3, {float_part});

/// A map of texts to numbers.
const arrow_part map_part =
    part_of(type_kind::map, 0, {struct_part("entries", {text_part("key"), int64_part("value")})});

arrow_data map_data(const std::vector<std::int32_t>& offsets, const texts& keys,
                    const std::vector<std::optional<std::int64_t>>& values) {
  arrow_data data = data_of_validity(std::vector<bool>(offsets.size() - 1, true));
  data.buffers.push_back(raw_bytes(offsets));
  return data.append(
      struct_data(std::vector<bool>(keys.size(), true), {text_data(keys), number_data(values)}));
}

} // namespace

TEST_CASE("texts and bytes are read from views, short ones within the view and long ones in buffers") {
  const texts all{"", "twelve bytes", "thirteen byte", std::nullopt, std::string(1000, 'q'), "öl"};
  const auto bytes = column_of(views, view_data(all));
  CHECK(read_all<std::optional<std::string>>(bytes) == all);
  CHECK_THAT(why_not<std::int64_t>(bytes), Contains("is of type utf8_view, not a number"));
  const auto binary = column_of(part_of(type_kind::binary_view), view_data(all));
  CHECK_THAT(why_not<std::string_view>(binary), Contains("is of type binary_view, not text"));
  const auto rows = rows_of(binary);
  REQUIRE(rows.size() == all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto value = rows[i]->as<std::optional<std::span<const std::byte>>>();
    REQUIRE(value.has_value() == all[i].has_value());
    if (value) CHECK(std::string(reinterpret_cast<const char*>(value->data()), value->size()) == *all[i]);
  }
}

TEST_CASE("columns after views are found, whatever number of buffers the views have") {
  arrow_data many = view_data({"a text of the first buffer", "a text of the second buffer"});
  many.buffers.insert(many.buffers.end(), 5, "more");
  many.variadic_counts = {7};
  arrow_data none = view_data({"a", "b"});
  none.buffers.resize(2);
  none.variadic_counts = {0};
  arrow_part v = views, w = views;
  v.name = "v", w.name = "w";
  const auto bytes = arrow_writer({v, struct_part("s", {w, int64_part("y")}), int64_part("x")})
                         .batch({many, struct_data({true, true}, {none, counted(3, 5)}), counted(5, 7)})
                         .file();
  CHECK(read_all<std::int64_t>(bytes) == std::vector<std::int64_t>{5, 6});
  CHECK(read_all<std::int64_t>(bytes, "s.y") == std::vector<std::int64_t>{3, 4});
  CHECK(read_all<std::string>(bytes, "s.w") == std::vector<std::string>{"a", "b"});
  CHECK(read_all<std::string>(bytes, "v")[1] == "a text of the second buffer");
}

TEST_CASE("a view outside its buffers fails only its row") {
  const auto message = [](std::int32_t size, std::int32_t buffer, std::int32_t offset) {
    arrow_data data = view_data({"good", "a longer text", "another longer text"});
    data.buffers[1].replace(16, 16, raw_bytes(std::vector{size, 0, buffer, offset}));
    const temporary_folder folder;
    auto source = fl::arrow_rows<std::string>({folder.write("a", column_of(views, data))}, {"x"}).source();
    source.start_epoch({});
    const auto first = source.next();
    CHECK(**first == "good");
    std::string what;
    try {
      source.next();
    } catch (const fl::arrow_error& error) {
      what = error.what();
    }
    const auto last = source.next();
    CHECK(**last == "another longer text");
    return what;
  };
  CHECK_THAT(message(13, 2, 0),
             Contains("/a: row 1, column `x`: the view of 13 bytes at offset 0 of buffer 2 isn't "
                      "within the column's 2 buffers"));
  constexpr auto least = std::numeric_limits<std::int32_t>::min(),
                 most = std::numeric_limits<std::int32_t>::max();
  for (const auto& [size, buffer, offset] :
       std::vector<std::tuple<std::int32_t, std::int32_t, std::int32_t>>{{-1, 0, 0},
                                                                         {least, 0, 0},
                                                                         {13, -1, 0},
                                                                         {13, least, 0},
                                                                         {13, most, 0},
                                                                         {13, 0, -1},
                                                                         {13, 0, least},
                                                                         {13, 0, 1},
                                                                         {14, 0, 0},
                                                                         {13, 0, 14},
                                                                         {13, 0, most},
                                                                         {most, 0, 0},
                                                                         {most, 0, most}})
    CHECK_THAT(message(size, buffer, offset), Contains("isn't within the column's 2 buffers"));
  CHECK(message(13, 0, 0) == ""); // the text that was there
}

TEST_CASE("wrong numbers of buffers of views are refused when their batch is read") {
  const arrow_data good = view_data({"a longer text"});
  const auto message = [&](auto change) {
    arrow_data data = good;
    change(data);
    return why_not<std::string>(column_of(views, data));
  };
  const std::string begin = "/a: row 0: can't read its record batch: ";
  CHECK_THAT(message([](arrow_data& d) { d.variadic_counts.clear(); }),
             Contains(begin + "the batch has fewer variadic counts than view columns"));
  CHECK_THAT(message([](arrow_data& d) { d.variadic_counts[0] = -1; }),
             Contains("an invalid variadic count"));
  for (const std::int64_t count : {std::int64_t{3}, std::numeric_limits<std::int64_t>::max()})
    CHECK_THAT(message([&](arrow_data& d) { d.variadic_counts[0] = count; }),
               Contains("has fewer buffers than"));
  CHECK_THAT(message([](arrow_data& d) { d.buffers[1].pop_back(); }),
             Contains("15 bytes, but needs at least 16"));
  arrow_part other = views;
  other.name = "y";
  arrow_data both = good;
  both.append(good);
  both.variadic_counts = {std::numeric_limits<std::int64_t>::max(), 2};
  CHECK_THAT(why_not<std::string>(arrow_writer({other, views}).batch(both).stream()),
             Contains("fewer buffers than"));
}

TEST_CASE("fixed-size lists are read as spans, arrays and vectors of their elements") {
  const auto data = fixed_list_data({true, false, true}, number_data<float>({1, 2, 3, 0, 0, 0, 4, 5, 6}));
  for (const std::size_t shift : {0u, 1u}) {
    const auto bytes = arrow_writer({three_floats}).shift(shift).batch(std::vector{data}).stream();
    using floats = std::optional<std::array<float, 3>>;
    CHECK(read_all<floats>(bytes) == std::vector<floats>{{{1, 2, 3}}, std::nullopt, {{4, 5, 6}}});
    using vectors = std::optional<std::vector<double>>;
    CHECK(read_all<vectors>(bytes) == std::vector<vectors>{{{1, 2, 3}}, std::nullopt, {{4, 5, 6}}});
    const auto rows = rows_of(bytes);
    const auto view = rows.at(2)->as<std::span<const float>>();
    CHECK(reinterpret_cast<std::uintptr_t>(view.data()) % alignof(float) == 0);
    CHECK(std::vector(view.begin(), view.end()) == std::vector<float>{4, 5, 6});
  }
  const auto bytes = column_of(three_floats, data);
  CHECK_THAT((why_not<std::array<float, 2>>(bytes)),
             Contains("is of type fixed_size_list<float32, 3>, not a fixed_size_list of 2 elements, "
                      "each a number that float32 holds exactly"));
  CHECK_THAT((why_not<std::array<std::int64_t, 3>>(bytes)), Contains("fixed_size_list<float32, 3>, not"));
  CHECK_THAT(why_not<std::span<const double>>(bytes), Contains("not list<float64>"));
}

TEST_CASE("fixed-size lists may be nested, have no elements, or elements that are null") {
  const arrow_part pair = part_of(type_kind::fixed_size_list, 2, {{"e", type_kind::integer, 16}});
  const arrow_part nested = part_of(type_kind::fixed_size_list, 2, {pair});
  const auto four = number_data<std::int16_t>({1, 2, 3, 4});
  using square = std::array<std::array<std::int16_t, 2>, 2>;
  CHECK(read_all<square>(column_of(nested, fixed_list_data({true}, fixed_list_data({true, true}, four)))) ==
        std::vector<square>{{{{1, 2}, {3, 4}}}});

  const auto holes = column_of(pair, fixed_list_data({true}, number_data<std::int16_t>({7, std::nullopt})));
  CHECK_THAT((why_not<std::array<std::int16_t, 2>>(holes)), Contains("element 1 of the list is null"));
  CHECK_THAT((why_not<std::vector<int>>(holes)), Contains("element 1 of the list: the value is null"));
  using optionals = std::vector<std::optional<std::int64_t>>;
  CHECK(read_all<optionals>(holes) == std::vector<optionals>{{7, std::nullopt}});

  const arrow_part empty = part_of(type_kind::fixed_size_list, 0, {int64_part("e")});
  CHECK(read_all<optionals>(column_of(empty, fixed_list_data({true, true}, counted(0, 0)))).size() == 2);
}

TEST_CASE("fixed-size lists with fewer elements than they need are refused") {
  CHECK_THAT((why_not<std::array<float, 3>>(column_of(
                 three_floats, fixed_list_data({true, true}, number_data<float>({1, 2, 3, 4, 5}))))),
             Contains("row 0: can't read its record batch: part `e` has 5 rows, but needs 6"));
  CHECK_THAT(why_not<fl::arrow_value>(
                 column_of(part_of(type_kind::fixed_size_list, -1, {float_part}), null_data(1))),
             Contains("column `x` has lists of -1 elements"));
  CHECK_THAT(why_not<fl::arrow_value>(column_of(part_of(type_kind::fixed_size_list, 1), null_data(1))),
             Contains("column `x` has lists with 0 element types"));
  arrow_data endless = data_of_validity({true});
  endless.nodes[0].first = std::int64_t{1} << 62;
  CHECK_THAT(why_not<std::vector<float>>(column_of(part_of(type_kind::fixed_size_list, 8, {float_part}),
                                                   endless.append(number_data<float>({1})))),
             Contains("more rows than memory can address"));
  // Nulls take no bytes.
  const arrow_part nulls = part_of(type_kind::fixed_size_list, 1 << 30, {part_of(type_kind::null)});
  const auto billion = column_of(nulls, data_of_validity({true}).append(null_data(1 << 30)));
  CHECK_THAT(why_not<std::vector<std::optional<int>>>(billion),
             Contains("the row's texts and lists have more than the 268435456 bytes that "
                      "arrow_options::max_row_bytes allows"));
}

TEST_CASE("dates, times, timestamps and durations are read as numbers, whose unit is in the schema") {
  const auto longs = number_data<std::int64_t>({-5, std::nullopt, 7});
  const auto ints = number_data<std::int32_t>({-5, std::nullopt, 7});
  using optionals = std::vector<std::optional<std::int64_t>>;
  const auto check = [&](const arrow_part& part, const arrow_data& data, const std::string& name,
                         fl::arrow_unit unit) {
    const auto bytes = column_of(part, data);
    CHECK(read_all<std::optional<std::int64_t>>(bytes) == optionals{-5, std::nullopt, 7});
    const auto rows = rows_of(bytes);
    CHECK(to_string(*rows.at(0)->field()) == name);
    CHECK(rows[0]->field()->unit == unit);
  };
  using enum fl::arrow_unit;
  check(of_unit(type_kind::date, 0), ints, "date32", day);
  check(of_unit(type_kind::date, 1), longs, "date64", millisecond);
  check(of_unit(type_kind::time, 0, 32), ints, "time32<s>", second);
  check(of_unit(type_kind::time, 1, 32), ints, "time32<ms>", millisecond);
  check(of_unit(type_kind::time, 2), longs, "time64<us>", microsecond);
  check(of_unit(type_kind::time, 3), longs, "time64<ns>", nanosecond);
  check(of_unit(type_kind::timestamp, 0), longs, "timestamp<s>", second);
  check(of_unit(type_kind::timestamp, 2, 64, "Europe/Berlin"), longs, "timestamp<us, Europe/Berlin>",
        microsecond);
  check(of_unit(type_kind::duration, 3), longs, "duration<ns>", nanosecond);

  const auto bytes = column_of(of_unit(type_kind::date, 0), ints);
  CHECK_THAT(why_not<double>(bytes), Contains("is of type date32, not a decimal or a number"));
  CHECK_THAT(why_not<std::int32_t>(column_of(of_unit(type_kind::timestamp, 0), longs)),
             Contains("timestamp<s>, not"));
  for (const auto& part :
       {of_unit(type_kind::date, 2), of_unit(type_kind::time, 4), of_unit(type_kind::timestamp, -1)})
    CHECK_THAT(why_not<fl::arrow_value>(column_of(part, longs)),
               Contains("column `x` has an unknown unit of time"));
  CHECK_THAT(why_not<fl::arrow_value>(column_of(of_unit(type_kind::time, 1, 64), longs)),
             Contains("column `x` has times of 64 bits in ms"));
}

TEST_CASE("times are read as std::chrono types that hold them exactly") {
  const auto longs = number_data<std::int64_t>({90'000});
  const auto berlin = column_of(of_unit(type_kind::timestamp, 1, 64, "Europe/Berlin"), longs);
  CHECK(read_all<sys_time<std::chrono::milliseconds>>(berlin)[0].time_since_epoch() == 90s);
  CHECK(read_all<sys_time<std::chrono::nanoseconds>>(berlin)[0].time_since_epoch() == 90s);
  CHECK_THAT(why_not<sys_time<std::chrono::seconds>>(berlin),
             Contains("is of type timestamp<ms, Europe/Berlin>, not a date or a timestamp with a "
                      "timezone, in whole ticks of the field's type"));
  CHECK_THAT(why_not<local_time<std::chrono::milliseconds>>(berlin),
             Contains("a timestamp without a timezone"));
  const auto wall = column_of(of_unit(type_kind::timestamp, 1), longs);
  CHECK(read_all<local_time<std::chrono::milliseconds>>(wall)[0].time_since_epoch() == 90s);
  CHECK_THAT(why_not<sys_time<std::chrono::milliseconds>>(wall), Contains("a timestamp with a timezone"));

  using std::chrono::sys_days;
  const auto day = column_of(of_unit(type_kind::date, 0), number_data<std::int32_t>({-1}));
  CHECK(read_all<sys_days>(day)[0] == sys_days(std::chrono::year(1969) / 12 / 31));
  CHECK(read_all<sys_time<std::chrono::hours>>(day)[0].time_since_epoch() == -24h);
  CHECK_THAT(why_not<sys_days>(column_of(of_unit(type_kind::date, 1), longs)),
             Contains("is of type date64, not"));

  // A day isn't a whole number of 7 seconds.
  CHECK_THAT((why_not<sys_time<std::chrono::duration<std::int64_t, std::ratio<7>>>>(day)),
             Contains("date32, not a date"));

  const auto clock = column_of(of_unit(type_kind::time, 0, 32), number_data<std::int32_t>({60}));
  CHECK(read_all<std::chrono::seconds>(clock)[0] == 1min);
  CHECK_THAT(why_not<std::chrono::minutes>(clock), Contains("time32<s>, not a time of the day or a"));
  CHECK(read_all<std::chrono::milliseconds>(column_of(of_unit(type_kind::duration, 1), longs))[0] == 90s);
  const auto far =
      column_of(of_unit(type_kind::duration, 0), number_data<std::int64_t>({std::int64_t{1} << 60}));
  CHECK(read_all<std::chrono::seconds>(far)[0].count() == std::int64_t{1} << 60);
  CHECK_THAT(why_not<std::chrono::milliseconds>(far),
             Contains("1152921504606846976 s is too large for the field's std::chrono type"));
}

TEST_CASE("decimals are read as their exact text, or as the nearest double") {
  const auto text = [](int scale, std::vector<std::uint32_t> words) {
    const int bits = static_cast<int>(32 * words.size());
    arrow_data data = data_of_validity({true});
    data.buffers.push_back(raw_bytes(words));
    const auto bytes = column_of(decimal_part(bits, scale), data);
    const std::string value = read_all<std::string>(bytes)[0];
    const double expected = std::stod(value);
    CHECK(read_all<double>(bytes)[0] == expected);
    return value;
  };
  constexpr std::uint32_t ones = 0xffffffff, sign = 0x80000000;
  CHECK(text(2, {1250}) == "12.50");
  CHECK(text(2, {5}) == "0.05");
  CHECK(text(22, {7, 0, 0, 0}) == "0.0000000000000000000007");
  CHECK(text(23, {7, 0, 0, 0}) == "0.00000000000000000000007");
  // Numbers that a double can't hold, whose quotient would be rounded twice.
  CHECK(text(7, {2'798'570'523, 103'999'337}) == "44667375401.9253275");
  CHECK(text(7, {1'496'396'773, 4'190'967'958}) == "-44667375401.9253275");
  CHECK(text(1, {ones, ones, 0, 0}) == "1844674407370955161.5");
  CHECK(text(2, {ones - 4}) == "-0.05");
  CHECK(text(3, {0}) == "0.000");
  CHECK(text(0, {sign}) == "-2147483648");
  CHECK(text(-2, {12}) == "1200");
  CHECK(text(-2, {0}) == "0");
  CHECK(text(9, {0, sign}) == "-9223372036.854775808");
  CHECK(text(0, {1'000'000'000, 0}) == "1000000000");
  CHECK(text(4, {0, 1}) == "429496.7296");
  CHECK(text(1, {ones, ones, ones, ones >> 1}) == "17014118346046923173168730371588410572.7");
  CHECK(text(0, {ones, ones, ones, ones}) == "-1");
  CHECK(text(38, {0, 0, 0, 0, 0, 0, 0, sign}) ==
        "-578960446186580977117854925043439539266.34992332820282019728792003956564819968");
  CHECK(text(0, {0, 0, 0, 1, 0, 0, 0, 0}) == "79228162514264337593543950336");

  arrow_data one = data_of_validity({true});
  one.buffers.push_back(std::string(16, '\1'));
  const auto bytes = column_of(decimal_part(128, 2), one);
  CHECK_THAT(why_not<std::string_view>(bytes), Contains("is of type decimal128<32, 2>, not text"));
  CHECK_THAT(why_not<float>(bytes), Contains("decimal128<32, 2>, not"));
  CHECK_THAT(why_not<std::int64_t>(bytes), Contains("decimal128<32, 2>, not"));
  CHECK_THAT(why_not<std::string>(column_of(decimal_part(256, 2), one)),
             Contains("16 bytes, but needs at least 32"));
  CHECK_THAT(why_not<std::string>(column_of(decimal_part(16, 2), one)),
             Contains("column `x` has decimals of 16 bits"));
  for (const int scale : {1001, -1001, std::numeric_limits<int>::min()})
    CHECK_THAT(why_not<std::string>(column_of(decimal_part(128, scale), one)),
               Contains("column `x` has decimals with a scale of " + std::to_string(scale)));
}

TEST_CASE("doubles of decimals that are too large or too small are infinite or 0") {
  arrow_data two = data_of_validity({true, true});
  two.buffers.push_back(raw_bytes(std::vector<std::int32_t>{7, -7}));
  constexpr double infinity = std::numeric_limits<double>::infinity();
  CHECK(read_all<double>(column_of(decimal_part(32, -400), two)) == std::vector<double>{infinity, -infinity});
  CHECK(read_all<double>(column_of(decimal_part(32, 400), two)) == std::vector<double>{0, 0});
}

TEST_CASE("maps are read as vectors of pairs, in the file's order") {
  const auto bytes = column_of(map_part, map_data({0, 2, 2, 3}, {"b", "a", "c"}, {1, 2, std::nullopt}));
  using pairs = std::vector<std::pair<std::string, std::optional<std::int64_t>>>;
  CHECK(read_all<pairs>(bytes) == std::vector<pairs>{{{"b", 1}, {"a", 2}}, {}, {{"c", std::nullopt}}});
  CHECK_THAT((why_not<std::vector<std::pair<std::string_view, std::int64_t>>>(bytes)),
             Contains("element 0 of the list: the value is null"));
  CHECK_THAT((why_not<std::vector<std::pair<std::int64_t, std::int64_t>>>(bytes)),
             Contains("is of type map<utf8, int64>, not a map, with each key a number that int64 holds "
                      "exactly, and each value a number"));
  const auto rows = rows_of(bytes);
  REQUIRE(rows.at(0)->size() == 2);
  CHECK((*rows[0])[1][0].as<std::string_view>() == "a");
  CHECK_THAT(why_not<pairs>(column_of(map_part, map_data({0, 4}, {"b"}, {1}))),
             Contains("offsets 0 and 4 aren't within the data"));
  arrow_data null_entry = data_of_validity({true});
  null_entry.buffers.push_back(raw_bytes(std::vector<std::int32_t>{0, 1}));
  null_entry.append(struct_data({false}, {text_data({"a"}), counted(0, 1)}));
  CHECK_THAT(why_not<pairs>(column_of(map_part, null_entry)),
             Contains("element 0 of the list: the value is null"));
  for (const auto& entries : {struct_part("e", {text_part("key")}), text_part("e")})
    CHECK_THAT(why_not<pairs>(column_of(part_of(type_kind::map, 0, {entries}), null_data(0))),
               Contains("column `x` has maps whose elements aren't a key and a value"));
}

TEST_CASE("lists of texts and of lists are read as vectors") {
  const arrow_part part = list_part("x", list_part("e", text_part("t")));
  arrow_data data = data_of_validity({true, true});
  data.buffers.push_back(raw_bytes(std::vector<std::int32_t>{0, 2, 2}));
  arrow_data inner = data_of_validity({true, true});
  inner.buffers.push_back(raw_bytes(std::vector<std::int32_t>{0, 1, 3}));
  const auto bytes = column_of(part, data.append(inner).append(text_data({"a", "b", "c"})));
  using lists = std::vector<std::vector<std::string>>;
  CHECK(read_all<lists>(bytes) == std::vector<lists>{{{"a"}, {"b", "c"}}, {}});
}

TEST_CASE("dictionaries hold values of any type, also in lists, and with deltas") {
  const auto indices = [](std::vector<std::optional<std::int32_t>> all) {
    return std::vector{number_data(all)};
  };
  const auto read = [&]<class T>(arrow_part part, const arrow_data& values, const arrow_data& more, T) {
    part.name = "x";
    part.dictionary = 4;
    arrow_writer writer({part});
    writer.dictionary(4, values).batch(indices({1, 0}));
    writer.dictionary(4, more, true).batch(indices({2, std::nullopt}));
    const auto all = read_all<std::optional<T>>(writer.stream());
    CHECK(read_all<std::optional<T>>(writer.file()) == all);
    return all;
  };
  const std::optional<std::int64_t> none;
  CHECK(read(int64_part("x"), counted(10, 12), counted(20, 21), std::int64_t()) ==
        std::vector{{11}, {10}, {20}, none});
  using strings = std::vector<std::optional<std::string>>;
  CHECK(read(views, view_data({"a", "a long text in a buffer"}), view_data({"b"}), std::string()) ==
        strings{"a long text in a buffer", "a", "b", std::nullopt});
  using triple = std::array<float, 3>;
  CHECK(read(three_floats, fixed_list_data({true, true}, number_data<float>({1, 2, 3, 4, 5, 6})),
             fixed_list_data({true}, number_data<float>({7, 8, 9})), triple()) ==
        std::vector<std::optional<triple>>{{{4, 5, 6}}, {{1, 2, 3}}, {{7, 8, 9}}, std::nullopt});
  using pairs = std::vector<std::pair<std::string, std::optional<std::int64_t>>>;
  CHECK(read(map_part, map_data({0, 1, 2}, {"a", "b"}, {1, 2}), map_data({0, 0}, {}, {}), pairs()) ==
        std::vector<std::optional<pairs>>{{{{"b", 2}}}, {{{"a", 1}}}, pairs(), std::nullopt});

  arrow_part element = text_part("e");
  element.dictionary = 4;
  arrow_data lists = data_of_validity({true});
  lists.buffers.push_back(raw_bytes(std::vector<std::int32_t>{0, 2}));
  lists.append(number_data<std::int32_t>({1, 0}));
  arrow_writer writer({list_part("x", element)});
  writer.dictionary(4, text_data({"a", "b"})).batch(std::vector{lists});
  CHECK(read_all<std::vector<std::string>>(writer.stream())[0] == std::vector<std::string>{"b", "a"});
}

TEST_CASE("a dictionary that a stream replaces is refused in a file, which has no order of messages") {
  arrow_part part = text_part("x");
  part.dictionary = 4;
  arrow_writer writer({part});
  const std::vector index{number_data<std::int32_t>({0})};
  writer.dictionary(4, text_data({"a"})).batch(index).dictionary(4, text_data({"b"})).batch(index);
  CHECK(read_all<std::string>(writer.stream()) == std::vector<std::string>{"a", "b"});
  CHECK_THAT(why_not<std::string>(writer.file()),
             Contains("dictionary 4 is replaced, which only a stream can do"));
}

namespace {

struct event {
  std::string_view name;
  std::array<float, 3> place;
  sys_time<std::chrono::microseconds> time;
  std::string price;
  std::vector<std::pair<std::string_view, std::int64_t>> counts;
  std::span<const std::byte> bytes;
  std::string_view kind;
};

using plain_event = std::tuple<std::string, std::array<float, 3>, std::int64_t, std::string, std::int64_t,
                               std::string, std::string>;

constexpr auto to_plain = [](const fl::arrow_row<event>& row) {
  return plain_event(std::string(row->name), row->place, row->time.time_since_epoch().count(), row->price,
                     row->counts.at(0).second,
                     std::string(reinterpret_cast<const char*>(row->bytes.data()), row->bytes.size()),
                     std::string(row->kind));
};

arrow_part named(std::string name, arrow_part part) {
  part.name = std::move(name);
  return part;
}

std::string events(int begin, int end, bool is_file) {
  arrow_part kind = text_part("kind");
  kind.dictionary = 4;
  arrow_writer writer({named("name", views), named("place", three_floats),
                       named("time", of_unit(type_kind::timestamp, 2, 64, "UTC")),
                       named("price", decimal_part(64, 2)), named("counts", map_part),
                       named("bytes", part_of(type_kind::binary_view)), kind});
  for (int i = begin; i < end; i += 5) { // 5 rows in each batch
    texts names, keys, bytes;
    std::vector<std::optional<float>> places;
    std::vector<std::int32_t> offsets{0};
    std::vector<std::optional<std::int64_t>> numbers;
    std::vector<std::optional<std::int32_t>> kinds;
    for (int row = i; row < i + 5; ++row) {
      names.push_back("event number " + std::to_string(row));
      keys.push_back("k");
      numbers.push_back(row);
      for (int k = 0; k < 3; ++k) places.push_back(static_cast<float>(row + k));
      offsets.push_back(row - i + 1);
      bytes.push_back(std::string(static_cast<std::size_t>(row), 'b'));
      kinds.push_back(row % 2 + (is_file ? (i - begin) / 5 * 2 : 0));
    }
    // Each batch adds two texts to the dictionary of a file, and replaces that of a stream.
    writer.dictionary(4, text_data({"kind " + std::to_string(i), "kind " + std::to_string(i + 1)}),
                      is_file && i > begin);
    writer.batch({view_data(names), fixed_list_data(std::vector<bool>(5, true), number_data(places)),
                  number_data(numbers), number_data(numbers), map_data(offsets, keys, numbers),
                  view_data(bytes), number_data(kinds)});
  }
  return is_file ? writer.file() : writer.stream();
}

} // namespace

TEST_CASE("rows with these types keep the promises of a source, in order and by position") {
  const temporary_folder folder;
  for (int i = 0; i < 3; ++i) folder.write(std::to_string(i), events(10 * i, 10 * i + 10, i == 1));
  const std::vector<std::string> columns{"name", "place", "time", "price", "counts", "bytes", "kind"};
  const auto make = [&] { return fl::arrow_rows<event>({folder / "?"}, columns); };
  auto source = make().source();
  source.start_epoch({});
  CHECK(to_plain(*source.next()) == plain_event("event number 0", {0, 1, 2}, 0, "0.00", 0, "", "kind 0"));
  CHECK(to_plain(source.indexed().at(17)) ==
        plain_event("event number 17", {17, 18, 19}, 17, "0.17", 17, std::string(17, 'b'), "kind 16"));
  // Texts and vectors are copies.
  CHECK(make().source().max_item_bytes() == sizeof(fl::arrow_row<event>) + fl::arrow_options().max_row_bytes);
  fl::testing::check_source(make, {}, to_plain);
  fl::testing::check_source([&] { return make() | fl::global_shuffle(); }, {}, to_plain);
}

TEST_CASE("a part of a dictionary's structs is read") {
  using optionals = std::vector<std::optional<std::int64_t>>;
  arrow_part part = struct_part("x", {int64_part("y")});
  part.dictionary = 1;
  const auto structs = arrow_writer({part})
                           .dictionary(1, struct_data({true, false}, {counted(5, 7)}))
                           .batch({number_data<std::int32_t>({1, 0, 0})})
                           .stream();
  CHECK(read_all<std::optional<std::int64_t>>(structs, "x.y") == optionals{std::nullopt, 5, 5});
}
