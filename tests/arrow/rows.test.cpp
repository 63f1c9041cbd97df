// SPDX-License-Identifier: MIT
#include <feedline/arrow/rows.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <feedline/source/global_shuffle.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>
#include <feedline/stage/shuffle.hpp>
#include <feedline/testing.hpp>

#include "support/arrow_writer.hpp"
#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/page_cache.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using namespace feedline::test;
using Catch::Contains;

namespace {

struct clip {
  std::span<const std::byte> audio;
  std::optional<std::int64_t> label;
  std::string_view name;
};

/// The content of a clip, to compare.
using plain_clip = std::tuple<std::string, std::optional<std::int64_t>, std::string>;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

constexpr auto to_plain = [](const fl::arrow_row<clip>& row) {
  return plain_clip(text_of(row->audio), row->label, std::string(row->name));
};

static_assert(std::is_same_v<decltype(fl::arrow_rows<clip>({}, {}))::item, fl::arrow_row<clip>>);
static_assert(fl::indexed_source<fl::detail::rows_source<clip>>);
static_assert(fl::detail::can_be_resumed<fl::detail::rows_source<clip>>);
static_assert(fl::detail::announced_samples<fl::detail::indexed_rows<clip>>);

/// Clip number i; every fifth has no label.
plain_clip clip_number(int i) {
  const std::string text = std::to_string(i);
  return {std::string(static_cast<std::size_t>(i % 7), 'a') + text,
          i % 5 == 4 ? std::nullopt : std::optional<std::int64_t>(i), "clip " + text};
}

const std::vector<std::string> columns{"audio.bytes", "label", "audio.path"};

arrow_writer clip_writer() {
  return arrow_writer({int64_part("label"), struct_part("audio", {binary_part("bytes"), text_part("path")})});
}

arrow_writer& add_clips(arrow_writer& writer, int begin, int end) {
  std::vector<std::optional<std::int64_t>> labels;
  std::vector<std::optional<std::string>> bytes, paths;
  for (int i = begin; i < end; ++i) {
    const auto [audio, label, name] = clip_number(i);
    labels.push_back(label);
    bytes.emplace_back(audio);
    paths.emplace_back(name);
  }
  const std::vector<bool> all(bytes.size(), true);
  return writer.batch({number_data(labels), struct_data(all, {text_data(bytes), text_data(paths)})});
}

/// A file of two batches.
std::string clips(int begin, int end, bool is_file = false) {
  arrow_writer writer = clip_writer();
  const int middle = begin + (end - begin) / 3;
  add_clips(writer, begin, middle);
  add_clips(writer, middle, end);
  return is_file ? writer.file() : writer.stream();
}

std::vector<plain_clip> clips_from(int begin, int end) {
  std::vector<plain_clip> all;
  for (int i = begin; i < end; ++i) all.push_back(clip_number(i));
  return all;
}

// Read without a run: to compile one for each type of a column would take most of this file's compile time.

/// All rows of a single column.
template <class T>
std::vector<T> read_all(const std::string& bytes, const std::string& column = "x") {
  const temporary_folder folder;
  auto source = fl::arrow_rows<T>({folder.write("a", bytes)}, {column}).source();
  source.start_epoch({});
  std::vector<T> all;
  while (const auto row = source.next()) all.push_back(**row);
  return all;
}

/// Why the first row can't be read.
template <class T>
std::string why_not(const std::string& bytes, const std::string& column = "x") {
  try {
    read_all<T>(bytes, column);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

template <class T>
std::string column_of(const arrow_part& part, const arrow_data& data) {
  return arrow_writer({part}).batch(std::vector{data}).stream();
}

std::string int_column(int bits, bool is_signed, const arrow_data& data) {
  return column_of<int>({"x", type_kind::integer, bits, is_signed}, data);
}

} // namespace

TEST_CASE("arrow_rows yields the rows of streams and files as structs of views") {
  const temporary_folder folder;
  folder.write("b.arrows", clips(0, 20));
  folder.write("c.arrow", clips(20, 31, true));
  const auto rows = fl::arrow_rows<clip>({folder / "*.arrow*"}, columns);
  CHECK(collect((rows | fl::map(to_plain)).finite()) == clips_from(0, 31));
  for (const std::size_t workers : {1u, 64u})
    CHECK(collect((rows | fl::map(to_plain, fl::workers{workers})).finite()) == clips_from(0, 31));
}

TEST_CASE("a struct of bytes and their path is read as the bytes") {
  const temporary_folder folder;
  const std::string file = folder.write("b.arrows", clips(0, 20));
  const auto rows = fl::arrow_rows<clip>({file}, {"audio", "label", "audio.path"});
  CHECK(collect((rows | fl::map(to_plain)).finite()) == clips_from(0, 20));
  auto texts = (fl::arrow_rows<std::string_view>({file}, {"audio"}) | fl::prefetch(1)).finite();
  CHECK(throws_saying<fl::pipeline_error>("is of type struct", [&] { texts.next(); }));
}

TEST_CASE("a row keeps its file mapped, and has the numbers of its row and file") {
  std::optional<fl::arrow_row<clip>> row;
  std::string path;
  {
    const temporary_folder folder;
    folder.write("a", clips(0, 5));
    path = folder.write("b", clips(0, 2000));
    auto source = fl::arrow_rows<clip>({folder / "?"}, columns).source();
    source.start_epoch({});
    for (int i = 0; i < 1000; ++i) row = source.next();
    CHECK(source.index() == ((std::uint64_t{1} << 40) | 994));
    CHECK(source.origin(source.index()) == path + ": row 994");
  }
  CHECK(to_plain(*row) == clip_number(994));
  CHECK(row->row() == 994);
  CHECK(row->file_number() == 1);
  CHECK(row->file() == path);
  CHECK(row->origin() == path + ": row 994");
}

TEST_CASE("a global shuffle yields every row of all files once, in another order in each epoch") {
  const temporary_folder folder;
  folder.write("a", clips(0, 40));
  folder.write("b", clips(40, 41, true));
  folder.write("c", clips(41, 100, true));
  const auto p = fl::arrow_rows<clip>({folder / "?"}, columns) | fl::global_shuffle() | fl::map(to_plain);
  auto all = collect(p.finite({.epochs = 2}));
  REQUIRE(all.size() == 200);
  CHECK_FALSE(std::equal(all.begin(), all.begin() + 100, all.begin() + 100));
  CHECK(std::abs(std::get<1>(all[0]).value_or(0) - std::get<1>(all[1]).value_or(0)) > 1);
  auto expected = clips_from(0, 100);
  std::sort(expected.begin(), expected.end());
  std::sort(all.begin(), all.begin() + 100);
  CHECK(std::equal(expected.begin(), expected.end(), all.begin()));
}

TEST_CASE("a stop ends the search for rows by position") {
  const temporary_folder folder;
  folder.write("a", clips(0, 3));
  std::stop_source stop;
  const auto source = fl::arrow_rows<clip>({folder / "?"}, columns).source();
  CHECK(source.indexed(stop.get_token()).size() == 3);
  stop.request_stop();
  CHECK_THROWS_AS(source.indexed(stop.get_token()), std::runtime_error);
}

TEST_CASE("arrow_rows keeps the promises of a source") {
  const temporary_folder folder;
  for (int i = 0; i < 4; ++i)
    folder.write(std::to_string(i), clips(10 * i, 10 * i + (i == 2 ? 1 : 7), i % 2 == 1));
  const auto make = [&] { return fl::arrow_rows<clip>({folder / "?"}, columns); };
  fl::testing::check_source(make, {.has_budget = true}, to_plain);
  fl::testing::check_source([&] { return make() | fl::global_shuffle(); }, {.has_budget = true}, to_plain);
}

TEST_CASE("a column that is missing or of another type is an error that lists the columns") {
  const temporary_folder folder;
  const std::string path = folder.write("a", clips(0, 3));
  folder.write("b", arrow_writer({text_part("label")}).stream());
  const auto message = [&](const std::vector<std::string>& names) {
    return run_to_end((fl::arrow_rows<clip>({folder / "a"}, names) | fl::prefetch(1)).finite())
        .failed->message;
  };
  const std::string there = "; the file has `label`: int64, `audio`: struct<bytes: binary, path: utf8>";
  CHECK(message({"audio.bytes", "lable", "audio.path"}) == path + ": there is no column `lable`" + there);
  CHECK(message({"audio.bites", "label", "audio.path"}) ==
        path + ": there is no column `audio.bites`" + there);
  CHECK(message({"audio.bytes", "label", "audio"}) == path +
                                                          ": column `audio` is of type struct<bytes: binary, "
                                                          "path: utf8>, but the field needs text (utf8)" +
                                                          there);
  CHECK(message({"audio.bytes", "audio.path", "audio.path"}) ==
        path +
            ": column `audio.path` is of type utf8, but the field needs a number that int64 holds exactly, "
            "or null" +
            there);

  const auto p = fl::arrow_rows<std::int64_t>({folder / "?"}, {"label"}) | fl::prefetch(1);
  const auto skipping = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(skipping.items.size() == 3);
  REQUIRE(skipping.skipped.size() == 1);
  CHECK_THAT(skipping.skipped[0].message, Contains("/b: column `label` is of type utf8"));
}

TEST_CASE("a null without a std::optional fails only its row, and the message names it") {
  const temporary_folder folder;
  const std::string path = folder.write("a", clips(0, 6));
  const auto p = fl::arrow_rows<std::pair<std::int64_t, std::string_view>>({path}, {"label", "audio.path"}) |
                 fl::map([](const auto& row) { return row->first; });
  const auto result = run_to_end(p.finite());
  CHECK(result.items == std::vector<std::int64_t>{0, 1, 2, 3});
  REQUIRE(result.failed);
  CHECK(result.failed->message ==
        path + ": row 4, column `label`: the value is null, but the field isn't a std::optional");
  CHECK(run_to_end(p.finite({.on_error = fl::on_error::skip})).items ==
        std::vector<std::int64_t>{0, 1, 2, 3, 5});
  const auto shuffled =
      fl::arrow_rows<std::int64_t>({path}, {"label"}) | fl::global_shuffle() | fl::prefetch(1);
  const auto skipping = run_to_end(shuffled.finite({.on_error = fl::on_error::skip}));
  CHECK(skipping.items.size() == 5);
  CHECK(skipping.skipped_indices() == std::vector<std::uint64_t>{4});
}

TEST_CASE("numbers are read as the types that hold them exactly, and as no others") {
  const auto bytes = int_column(8, true, number_data<std::int8_t>({1, -2, std::nullopt}));
  using optionals = std::vector<std::optional<std::int64_t>>;
  CHECK(read_all<std::optional<std::int64_t>>(bytes) == optionals{1, -2, std::nullopt});
  CHECK(read_all<std::optional<std::int8_t>>(bytes)[1] == -2);
  CHECK(read_all<std::optional<float>>(bytes)[1] == -2);
  CHECK(read_all<std::optional<double>>(bytes)[1] == -2);
  CHECK_THAT(why_not<std::uint64_t>(bytes),
             Contains("column `x` is of type int8, but the field needs a number that uint64 holds exactly"));
  CHECK_THAT(why_not<bool>(bytes), Contains("is of type int8, but the field needs bool"));

  const auto wide = int_column(32, false, number_data<std::uint32_t>({4'000'000'000u}));
  CHECK(read_all<std::int64_t>(wide)[0] == 4'000'000'000);
  CHECK(read_all<double>(wide)[0] == 4e9);
  CHECK_THAT(why_not<std::int32_t>(wide), Contains("uint32, but the field needs a number that int32"));
  CHECK_THAT(why_not<float>(wide), Contains("uint32, but the field needs a number that float32"));
  CHECK_THAT(why_not<double>(int_column(64, true, number_data<std::int64_t>({1}))), Contains("int64"));

  const auto floats = column_of<float>({"x", type_kind::floating_point, 1}, number_data<float>({0.5f}));
  CHECK(read_all<float>(floats)[0] == 0.5f);
  CHECK(read_all<double>(floats)[0] == 0.5);
  CHECK_THAT(why_not<std::int64_t>(floats), Contains("float32"));
  const auto halves =
      column_of<float>({"x", type_kind::floating_point, 0}, number_data<std::uint16_t>({0x3c00}));
  CHECK(read_all<float>(halves)[0] == 1);
  CHECK(read_all<fl::float16>(halves)[0] == fl::float16(1.0f));
  CHECK_THAT(
      why_not<float>(column_of<double>({"x", type_kind::floating_point, 2}, number_data<double>({1.0}))),
      Contains("float64"));

  const auto bools = column_of<bool>({"x", type_kind::boolean}, bool_data({true, std::nullopt, false}));
  CHECK(read_all<std::optional<bool>>(bools) == std::vector<std::optional<bool>>{true, std::nullopt, false});
}

TEST_CASE("fixed-size bytes, all text types and columns of nulls are read") {
  arrow_data fixed = data_of_validity({true, true});
  fixed.buffers.push_back("abcdef");
  const auto bytes = column_of<int>({"x", type_kind::fixed_size_binary, 3}, fixed);
  CHECK(read_all<std::array<std::byte, 3>>(bytes)[1][0] == std::byte{'d'});
  CHECK_THAT((why_not<std::array<std::byte, 4>>(bytes)),
             Contains("fixed_size_binary<3>, but the field needs fixed_size_binary<4>"));
  CHECK_THAT(why_not<std::string_view>(bytes), Contains("but the field needs text (utf8)"));

  const auto large =
      column_of<int>({"x", type_kind::large_utf8}, text_data<std::int64_t>({"", std::nullopt, "öl"}));
  using texts = std::vector<std::optional<std::string>>;
  CHECK(read_all<std::optional<std::string>>(large) == texts{"", std::nullopt, "öl"});

  const auto nulls = column_of<int>({"x", type_kind::null}, null_data(3));
  CHECK(read_all<std::optional<std::int64_t>>(nulls) == std::vector<std::optional<std::int64_t>>(3));
  CHECK(read_all<std::optional<std::string>>(nulls) == texts(3));
  CHECK_THAT(why_not<std::int64_t>(nulls), Contains("is of type null"));
  arrow_part part{"x", type_kind::null};
  part.dictionary = 1;
  const auto in_dictionary =
      arrow_writer({part}).dictionary(1, null_data(2)).batch({number_data<std::int32_t>({1, 0, 0})}).stream();
  CHECK(read_all<std::optional<std::int64_t>>(in_dictionary) == std::vector<std::optional<std::int64_t>>(3));
}

TEST_CASE("lists of numbers are read as aligned spans") {
  const arrow_part part = list_part("x", {"item", type_kind::integer, 16});
  const auto data = list_data<std::int16_t>({std::vector<std::int16_t>{1, 2}, std::nullopt,
                                             std::vector<std::int16_t>{}, std::vector<std::int16_t>{3}});
  for (const std::size_t shift : {0u, 1u, 3u, 8u}) {
    const temporary_folder folder;
    const auto path = folder.write("a", arrow_writer({part}).shift(shift).batch(std::vector{data}).stream());
    std::vector<int> sizes, numbers;
    for (const auto& row : collect(
             (fl::arrow_rows<std::optional<std::span<const std::int16_t>>>({path}, {"x"}) | fl::prefetch(1))
                 .finite())) {
      sizes.push_back(*row ? static_cast<int>((*row)->size()) : -1);
      if (!*row) continue;
      CHECK(reinterpret_cast<std::uintptr_t>((*row)->data()) % alignof(std::int16_t) == 0);
      numbers.insert(numbers.end(), (*row)->begin(), (*row)->end());
    }
    CHECK(sizes == std::vector{2, -1, 0, 1});
    CHECK(numbers == std::vector{1, 2, 3});
  }
  const auto bytes = column_of<int>(part, data);
  CHECK_THAT(why_not<std::span<const std::int32_t>>(bytes),
             Contains("list<int16>, but the field needs list<int32>"));
  CHECK_THAT(why_not<std::span<const std::uint16_t>>(bytes),
             Contains("list<int16>, but the field needs list<uint16>"));
  arrow_data holes = data_of_validity({true});
  holes.buffers.push_back(raw_bytes(std::vector<std::int32_t>{0, 2}));
  holes.append(number_data<std::int16_t>({7, std::nullopt}));
  CHECK_THAT(why_not<std::span<const std::int16_t>>(column_of<int>(part, holes)),
             Contains("row 0, column `x`: element 1 of the list is null"));
}

TEST_CASE("dictionaries are read as their values, also after deltas and replacements") {
  arrow_part part = text_part("x");
  part.dictionary = 7;
  const auto numbers = [](std::vector<std::optional<std::int32_t>> all) {
    return std::vector{number_data(all)};
  };
  arrow_writer writer({part});
  writer.dictionary(7, text_data({"a", "b", std::nullopt})).batch(numbers({1, 0, std::nullopt, 2}));
  writer.dictionary(7, text_data({"c"}), true).batch(numbers({3, 1}));
  using texts = std::vector<std::optional<std::string>>;
  CHECK(read_all<std::optional<std::string>>(writer.file()) ==
        texts{"b", "a", std::nullopt, std::nullopt, "c", "b"});
  writer.dictionary(7, text_data({"z"})).batch(numbers({0}));
  const texts all{"b", "a", std::nullopt, std::nullopt, "c", "b", "z"};
  CHECK(read_all<std::optional<std::string>>(writer.stream()) == all);
  writer.batch(numbers({1}));
  CHECK_THAT(why_not<std::optional<std::string>>(writer.stream()),
             Contains("row 7, column `x`: the row refers to value 1 of a dictionary that has only 1"));
  CHECK_THAT(why_not<std::string_view>(arrow_writer({part}).batch(numbers({0})).stream()),
             Contains("row 0: can't read its record batch: dictionary 7 is missing"));
}

TEST_CASE("a row with a path and no bytes says so") {
  const auto rows = [](std::vector<std::optional<std::string>> bytes,
                       std::vector<std::optional<std::string>> paths) {
    const std::vector<bool> all(bytes.size(), true);
    arrow_writer writer = clip_writer();
    const auto labels = number_data(std::vector<std::optional<std::int64_t>>(bytes.size(), 1));
    return writer.batch({labels, struct_data(all, {text_data(bytes), text_data(paths)})}).stream();
  };
  using span = std::span<const std::byte>;
  for (const char* column : {"audio", "audio.bytes"})
    CHECK_THAT(
        why_not<span>(rows({"x", std::nullopt}, {"a.wav", "/data/b.wav"}), column),
        Contains("row 1, column `audio.bytes`: the row has a path (`/data/b.wav`) and no bytes: store the"));
  CHECK_THAT(why_not<span>(rows({std::nullopt}, {std::nullopt}), "audio"), Contains("the value is null"));
  CHECK_THAT(why_not<std::string_view>(rows({"x"}, {std::nullopt}), "audio.path"),
             Contains("the value is null"));
  arrow_writer null_struct = clip_writer();
  null_struct.batch({number_data<std::int64_t>({1}),
                     struct_data({false}, {text_data({std::nullopt}), text_data({"a.wav"})})});
  CHECK_THAT(why_not<span>(null_struct.stream(), "audio"), Contains("the value is null"));
  CHECK_FALSE(read_all<std::optional<span>>(rows({std::nullopt}, {"a.wav"}), "audio").at(0));
}

TEST_CASE("the parts of a null struct are null") {
  const auto bytes = column_of<int>(struct_part("x", {int64_part("y")}),
                                    struct_data({true, false}, {number_data<std::int64_t>({1, 2})}));
  CHECK(read_all<std::optional<std::int64_t>>(bytes, "x.y") ==
        std::vector<std::optional<std::int64_t>>{1, std::nullopt});
}

TEST_CASE("a name with a dot is found, and an ambiguous name is refused") {
  const auto one = number_data<std::int64_t>({1});
  const auto dotted = arrow_writer({int64_part("x.y")}).batch({one}).stream();
  CHECK(read_all<std::int64_t>(dotted, "x.y")[0] == 1);
  const auto twice = arrow_writer({int64_part("x"), int64_part("x")}).batch({one, one}).stream();
  CHECK_THAT(why_not<std::int64_t>(twice),
             Contains("there are several columns `x`; the file has `x`: int64, `x`: int64"));
}

TEST_CASE("columns of unsupported types don't affect other columns") {
  arrow_data stamps = number_data<std::int64_t>({1, 2});
  const auto bytes =
      arrow_writer({{"t", type_kind::interval},
                    {"v", type_kind::union_of, 0, true, {int64_part("e")}},
                    int64_part("x")})
          .batch({stamps, struct_data({true, true}, {stamps}), number_data<std::int64_t>({3, 4})})
          .stream();
  CHECK(read_all<std::int64_t>(bytes) == std::vector<std::int64_t>{3, 4});
  CHECK_THAT(why_not<std::int64_t>(bytes, "t"), Contains("column `t` is of type interval, but"));
  CHECK_THAT(why_not<fl::arrow_value>(bytes, "v"), Contains("column `v` is of type union"));
}

TEST_CASE("an arrow_record has the named columns, or all that can be read") {
  const temporary_folder folder;
  const std::string path = folder.write("a", clips(0, 20));
  const auto as_plain = [](const fl::arrow_row<fl::arrow_record>& row) {
    const fl::arrow_value audio = *row->find("audio"), label = *row->find("label");
    return plain_clip(text_of(audio[0].as<std::span<const std::byte>>()),
                      label.as<std::optional<std::int64_t>>(), audio[1].as<std::string>());
  };
  for (const auto& names : {std::vector<std::string>(), {"label", "audio"}}) {
    const auto rows = fl::arrow_rows<fl::arrow_record>({path}, names);
    CHECK(collect((rows | fl::map(as_plain, fl::workers{3})).finite()) == clips_from(0, 20));
    CHECK(collect((rows | fl::global_shuffle() | fl::map(as_plain)).finite()).size() == 20);
  }
  const auto names_of = [](const std::string& bytes, const std::vector<std::string>& wanted) {
    const temporary_folder inner;
    auto source = fl::arrow_rows<fl::arrow_record>({inner.write("a", bytes)}, wanted).source();
    source.start_epoch({});
    std::vector<std::string> names;
    const auto row = source.next();
    for (const auto& [name, value] : **row) names.emplace_back(name);
    CHECK(row->operator*().size() == names.size());
    CHECK((*row)->find("nothing") == nullptr);
    return names;
  };
  using texts = std::vector<std::string>;
  CHECK(names_of(clips(0, 1), {}) == texts{"label", "audio"});
  CHECK(names_of(clips(0, 1), {"audio.path"}) == texts{"audio.path"});
  const auto mixed = [](const std::vector<arrow_part>& parts, const std::vector<arrow_data>& data) {
    return arrow_writer(parts).batch(data).stream();
  };
  const arrow_data one = number_data<std::int64_t>({1});
  CHECK(names_of(mixed({{"t", type_kind::interval}, int64_part("x")}, {one, one}), {}) == texts{"x"});
  CHECK_THAT(why_not<fl::arrow_record>(mixed({{"t", type_kind::interval}}, {one}), "x"),
             Contains("no column `x`"));
  const std::string unread = folder.write("b", mixed({{"t", type_kind::interval}}, {one}));
  auto loader = (fl::arrow_rows<fl::arrow_record>({unread}, {}) | fl::prefetch(1)).finite();
  CHECK(throws_saying<fl::pipeline_error>("no column can be read; the file has `t`: interval",
                                          [&] { loader.next(); }));
}

TEST_CASE("the values of an arrow_record are looked at with the row, and its lists are limited") {
  const auto failure_of = [](const std::string& bytes, fl::arrow_options options = {}) {
    const temporary_folder folder;
    auto rows = fl::arrow_rows<fl::arrow_record>({folder.write("a", bytes)}, {}, options) | fl::prefetch(1);
    const auto result = run_to_end(rows.finite());
    return result.failed ? result.failed->message : "";
  };
  arrow_data texts = text_data({"ab", "c"});
  texts.buffers[1] = raw_bytes(std::vector<std::int32_t>{0, 99, 3});
  CHECK_THAT(failure_of(column_of<int>(text_part("x"), texts)), Contains("a: row 0, column `x`: "));
  arrow_part many{"x", type_kind::fixed_size_list, 50'000'000};
  many.children = {arrow_part{"e"}};
  const std::string nulls = column_of<int>(many, fixed_list_data({true}, null_data(50'000'000)));
  CHECK_THAT(failure_of(nulls), Contains("a: row 0, column `x`: the row's texts and lists have more than"));
  CHECK(failure_of(nulls, {.max_row_bytes = std::size_t{1} << 29}).empty());
  // Many lists that share one list of numbers: every other one is null.
  arrow_data shared = data_of_validity({true, false, true, false, true});
  shared.buffers.push_back(raw_bytes(std::vector<std::int32_t>{0, 1000, 0, 1000, 0, 1000}));
  shared.append(counted(0, 1000));
  arrow_data outer = data_of_validity({true});
  outer.buffers.push_back(raw_bytes(std::vector<std::int32_t>{0, 5}));
  const std::string sharing =
      column_of<int>(list_part("x", list_part("e", int64_part("n"))), outer.append(shared));
  CHECK(failure_of(sharing).empty());
  CHECK_THAT(failure_of(sharing, {.max_row_bytes = 20'000}),
             Contains("column `x`: the row's texts and lists have more"));
  CHECK(failure_of(column_of<int>(list_part("x", int64_part("e")), list_data<std::int64_t>({{{1, 2}}})),
                   {.max_row_bytes = 1})
            .empty());
  const auto one = number_data<std::int64_t>({1});
  CHECK_THAT(failure_of(arrow_writer({int64_part("x"), int64_part("x")}).batch({one, one}).stream()),
             Contains("there are several columns `x`"));
}

TEST_CASE("a wrong number of columns, an empty list, a file listed twice and wildcards without a match fail "
          "immediately") {
  const temporary_folder folder;
  CHECK(throws_saying<std::invalid_argument>("the row has 3 fields, but 2 columns are named", [] {
    fl::arrow_rows<clip>({"a"}, {"b", "c"});
  }));
  CHECK(throws_saying<std::invalid_argument>("feedline::arrow_rows: the list of files is empty",
                                             [] { fl::arrow_rows<clip>({}, columns); }));
  folder.write("a.arrows", "");
  CHECK(throws_saying<std::invalid_argument>("a.arrows` is listed twice", [&] {
    fl::arrow_rows<clip>({folder / "*.arrows", folder / "a.arrows"}, columns);
  }));
  CHECK(throws_saying<std::runtime_error>("no file matches",
                                          [&] { fl::arrow_rows<clip>({folder / "*.arrow"}, columns); }));
}

TEST_CASE("files without rows yield none, and a loop can be left early") {
  const temporary_folder folder;
  folder.write("a", clip_writer().stream());
  CHECK(collect((fl::arrow_rows<clip>({folder / "a"}, columns) | fl::prefetch(2)).finite()).empty());
  CHECK(collect(
            (fl::arrow_rows<clip>({folder / "a"}, columns) | fl::global_shuffle() | fl::prefetch(2)).finite())
            .empty());
  folder.write("b", clips(0, 30));
  const auto p = fl::arrow_rows<clip>({folder / "?"}, columns) | fl::map(to_plain, fl::workers{4}) |
                 fl::shuffle({.capacity = 8});
  CHECK(collect(p.infinite(), 100).size() == 100);
}

TEST_CASE("rows that are read by position are announced to the system before") {
  const temporary_folder folder;
  constexpr std::size_t size = 200'000, count = 60;
  arrow_writer writer({binary_part("x"), list_part("y", int64_part("e")), {"z", type_kind::binary_view}});
  std::vector<std::optional<std::string>> bytes;
  std::vector<std::optional<std::vector<std::int64_t>>> lists;
  for (std::size_t i = 0; i < count; ++i) {
    bytes.emplace_back(std::string(size, static_cast<char>('a' + i)));
    lists.emplace_back(std::vector<std::int64_t>(size / 8, static_cast<std::int64_t>(i)));
  }
  const std::string file = writer.batch({text_data(bytes), list_data(lists), view_data(bytes)}).stream();
  const std::string path = folder.write("a", file);
  const std::size_t row = 58, far = 45; // farther from the beginning than systems usually read ahead
  const auto place_of = [&](const std::string& value, std::size_t after = 0) {
    return file.find(value, after) + size / 2;
  };
  if (!file_system_reads_ahead(path, size)) return;
  const auto check = [&](const auto& rows, std::size_t near, std::size_t distant) {
    forget_file(path);
    REQUIRE_FALSE(is_in_memory(path, near));
    // The numbers that say where the row is come first.
    CHECK(comes_into_memory(path, near, [&] { rows.will_need(row); }));
    CHECK_FALSE(is_in_memory(path, distant));
  };
  const auto text = [&](std::size_t i) { return std::string(1000, static_cast<char>('a' + i)); };
  const auto list = [](std::size_t i) {
    return raw_bytes(std::vector<std::int64_t>(100, static_cast<std::int64_t>(i)));
  };
  const std::size_t lists_begin = file.find(list(1));
  using span = std::span<const std::byte>;
  check(fl::arrow_rows<span>({path}, {"x"}).source().indexed(), place_of(text(row)), place_of(text(far)));
  check(fl::arrow_rows<std::span<const std::int64_t>>({path}, {"y"}).source().indexed(), place_of(list(row)),
        place_of(list(far)));
  check(fl::arrow_rows<span>({path}, {"z"}).source().indexed(), place_of(text(row), lists_begin),
        place_of(text(far), lists_begin));
}

TEST_CASE("a checkpoint includes the columns") {
  const temporary_folder folder;
  const std::string path = folder.write("a", clips(0, 50));
  const auto labels = [&](const char* column) {
    return fl::arrow_rows<std::optional<fl::arrow_value>>({path}, {column}) | fl::prefetch(2);
  };
  auto loader = labels("label").infinite();
  loader.next();
  CHECK_THROWS_AS(labels("audio").infinite({.resume = loader.checkpoint()}), std::invalid_argument);
}
