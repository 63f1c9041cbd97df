// SPDX-License-Identifier: MIT
// Files that are cut off, damaged, or have wrong sizes.
#include <feedline/arrow/rows.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/source/global_shuffle.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>
#include <feedline/testing.hpp>

#include "support/arrow_values.hpp"
#include "support/arrow_writer.hpp"
#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/temporary_folder.hpp"

namespace fl = feedline;
using namespace feedline::test;
using namespace std::string_literals;
using Catch::Contains;
using numbers = std::vector<std::int64_t>;

namespace {

constexpr auto value = [](const auto& row) { return *row; };

auto read(const std::string& path) { return fl::arrow_rows<std::int64_t>({path}, {"x"}) | fl::map(value); }

/// A stream without its end mark; whole_stream() has it.
std::string open_stream() {
  return arrow_writer({int64_part("x")}).batch({counted(0, 3)}).batch({counted(3, 5)}).open();
}

std::string whole_stream() {
  return arrow_writer({int64_part("x")}).batch({counted(0, 3)}).batch({counted(3, 5)}).stream();
}

/// Why a file with this batch can't be read.
template <class T = fl::arrow_value>
std::string problem_of(const arrow_part& part, const arrow_data& data) {
  const temporary_folder folder;
  const auto path = folder.write("a", arrow_writer({part}).batch(data).stream());
  const auto result = run_to_end((fl::arrow_rows<T>({path}, {part.name}) | fl::prefetch(1)).finite());
  if (!result.failed) return "nothing";
  CHECK_THAT(result.failed->message, Contains(path + ": "));
  return result.failed->message;
}

arrow_data with_buffer(arrow_data data, std::size_t number, std::string bytes) {
  data.buffers[number] = std::move(bytes);
  return data;
}

} // namespace

TEST_CASE("a stream that is cut off yields its complete batches, then an error, then the next file") {
  const temporary_folder folder;
  const std::string whole = whole_stream();
  folder.write("b", whole_stream());
  folder.write("c", whole_stream()); // so that three ranks have one each
  for (const std::size_t lost : {9u, 20u}) {
    const std::string path = folder.write("a", whole.substr(0, whole.size() - lost));
    const auto p = read(folder / "?");
    const auto result = run_to_end(p.finite());
    CHECK(result.items == numbers{0, 1, 2});
    REQUIRE(result.failed);
    CHECK_THAT(result.failed->message,
               Contains(path + ": message at offset ") && Contains("the body is cut off: "));
    CHECK(run_to_end(p.finite({.on_error = fl::on_error::skip})).items ==
          numbers{0, 1, 2, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4});
    const auto source = fl::arrow_rows<std::int64_t>({folder / "?"}, {"x"});
    fl::testing::check_source([&] { return source; }, {}, value);
    const auto skipping =
        run_to_end((source | fl::global_shuffle() | fl::map(value)).finite({.on_error = fl::on_error::skip}));
    CHECK(skipping.items.size() == 13);
    CHECK(skipping.skipped_indices() == std::vector<std::uint64_t>{3});
  }
}

TEST_CASE("a stream without its end mark is complete") {
  const temporary_folder folder;
  CHECK(collect(read(folder.write("a", open_stream())).finite()).size() == 5);
}

TEST_CASE("files other than Arrow data are refused") {
  const temporary_folder folder;
  const auto message = [&](std::string_view bytes) {
    return run_to_end(read(folder.write("a", bytes)).finite()).failed->message;
  };
  CHECK_THAT(message(""), Contains("/a: the file is empty"));
  CHECK_THAT(message("abc"), Contains("this isn't an Arrow file: it is text"));
  CHECK_THAT(message("\1\2\3"), Contains("the message is cut off"));
  CHECK_THAT(message("\x10\0\0\0x"s), Contains("the metadata is cut off"));
  CHECK_THAT(message(std::string(64, '\xfe')), Contains("this isn't Arrow data"));
  CHECK_THAT(message(std::string(64, '\0')), Contains("there is no schema"));
  const std::string wav("RIFF\x24\0\0\0WAVEfmt \x10\0\0\0", 20);
  CHECK_THAT(message(wav), Contains("/a: this isn't an Arrow file: it is a WAV file (RIFF)"));
  CHECK_THAT(message("PAR1 and more of it"), Contains("this isn't an Arrow file: it is a Parquet file"));
  CHECK_THAT(message("FEA1\0\0\0\0"s),
             Contains("it is a Feather file of version 1: write it with version 2"));
  CHECK_THAT(message("{\n  \"citation\": \"\",\n"), Contains("this isn't an Arrow file: it is JSON"));
  CHECK_THAT(message(" [1, 2]"), Contains("this isn't an Arrow file: it is JSON"));
  CHECK_THAT(message("id,Größe\r\n1,\"a\"\r\n"),
             Contains("this isn't an Arrow file: it is text, such as CSV"));
  CHECK_THAT(message("version https://git-lfs.github.com/spec/v1\n"), Contains("it is a Git LFS pointer"));
  CHECK_THAT(message("\x1f\x8b\x08 and more"), Contains("this isn't an Arrow file: it is gzip data"));
  CHECK_THAT(message("<html><body>404"), Contains("this isn't an Arrow file: it is an HTML page"));
  CHECK_THAT(message("ARROW1"), Contains("the file is cut off: it begins with ARROW1"));
  CHECK_THAT(message("ARROW1\0\0 ------ ARROW1"), Contains("ARROW1"));
  CHECK_THAT(run_to_end(read(folder.path()).finite()).failed->message,
             Contains("is a directory: name the files in it, such as `" + folder.path() + "/*.arrow`"));
  CHECK_THAT(run_to_end(read(folder / "none").finite()).failed->message, Contains("No such file"));
}

TEST_CASE("streams one after another in a file are left out with a notice, or read") {
  const temporary_folder folder;
  const std::string next = arrow_writer({int64_part("x")}).batch({counted(5, 7)}).stream();
  for (const std::string& between : {std::string(), std::string(12, '\0')}) {
    const auto path = folder.write("a", whole_stream() + between + next + next);
    folder.write("b", whole_stream() + "xyz");
    folder.write("c", arrow_writer({int64_part("x")}).stream()); // without rows
    std::vector<std::string> notices;
    const auto source = [&](bool concatenated) {
      return fl::arrow_rows<std::int64_t>(
          {folder / "?"}, {"x"},
          {.concatenated = concatenated, .on_notice = [&](const std::string& s) { notices.push_back(s); }});
    };
    const auto left_out = source(false) | fl::map(value);
    for (int i = 0; i < 2; ++i) CHECK(collect(left_out.finite()) == numbers{0, 1, 2, 3, 4, 0, 1, 2, 3, 4});
    CHECK(collect((source(false) | fl::global_shuffle() | fl::map(value)).finite()).size() == 10);
    REQUIRE(notices.size() == 2); // one for each source
    CHECK_THAT(notices[0], Contains(path + ": " + std::to_string(2 * next.size()) +
                                    " bytes follow the end of the stream and aren't read"));
    // By position several threads read the files' metadata: either file can be the first.
    CHECK_THAT(notices[1], Contains(path + ": ") || Contains(folder / "b: 3 bytes follow the end"));
    for (const std::string& notice : notices) CHECK_THAT(notice, Contains("`concatenated`"));
    folder.write("b", whole_stream() + std::string(5, '\0'));
    CHECK(collect((source(true) | fl::map(value)).finite()) ==
          numbers{0, 1, 2, 3, 4, 5, 6, 5, 6, 0, 1, 2, 3, 4});
    CHECK(collect((source(true) | fl::global_shuffle() | fl::map(value)).finite()).size() == 14);
    CHECK(source(true).source().indexed().at(8).row() == 8);
    fl::testing::check_source([&] { return source(true); }, {.places = 6}, value);
    const auto checkpoint = left_out.infinite().checkpoint();
    CHECK_THROWS_AS((source(true) | fl::map(value)).infinite({.resume = checkpoint}), std::invalid_argument);
    CHECK(notices.size() == 2);
  }
}

TEST_CASE("a stream after another one must be one, with the same columns and its own dictionaries") {
  const temporary_folder folder;
  const auto failed = [&](const std::string& next, const arrow_part& part = int64_part("x")) {
    arrow_part with_dictionary = part;
    arrow_writer first({part});
    if (part.dictionary)
      first.dictionary(1, text_data({"a"})).batch(std::vector{number_data<std::int32_t>({0})});
    else first.batch({counted(0, 1)});
    const auto path = folder.write("a", first.stream() + next);
    const auto result = run_to_end(
        (fl::arrow_rows<fl::arrow_value>({path}, {"x"}, {.concatenated = true}) | fl::prefetch(1)).finite());
    CHECK(result.items.size() == 1);
    return result.failed ? result.failed->message : "nothing";
  };
  CHECK_THAT(failed(arrow_writer({text_part("x")}).stream()),
             Contains("the stream has other columns than the one before it: `x`: utf8, not `x`: int64"));
  const std::string whole = whole_stream();
  const std::string schema = arrow_writer({int64_part("x")}).open();
  CHECK_THAT(failed(whole.substr(schema.size())), Contains("it doesn't begin with a schema"));
  CHECK_THAT(failed(whole.substr(0, schema.size() + 20)), Contains("is cut off"));
  CHECK_THAT(failed("garbage"), Contains("is cut off"));
  arrow_part part = text_part("x");
  part.dictionary = 1;
  const std::vector index{number_data<std::int32_t>({0})};
  CHECK_THAT(failed(arrow_writer({part}).batch(index).stream(), part), Contains("dictionary 1 is missing"));
  CHECK_THAT(failed(arrow_writer({part})
                        .dictionary(1, text_data({"b"}), true)
                        .batch(std::vector{number_data<std::int32_t>({1})})
                        .stream(),
                    part),
             Contains("the file has a dictionary") || Contains("a dictionary that has only 1"));
}

TEST_CASE("Arrow files with footers can't be joined, which is an error instead of the wrong rows") {
  const temporary_folder folder;
  const auto file = [](std::int64_t begin) {
    return arrow_writer({int64_part("x")}).batch({counted(begin, begin + 3)}).file();
  };
  const auto path = folder.write("a", file(0) + file(10));
  const auto result = run_to_end(read(path).finite());
  CHECK(result.items.empty());
  REQUIRE(result.failed);
  CHECK_THAT(result.failed->message,
             Contains("the file consists of several Arrow files, of which the first has " +
                      std::to_string(file(0).size()) + " bytes"));
}

TEST_CASE("buffers that are too short, or outside the body, are refused when their batch is read") {
  const arrow_data three = counted(0, 3);
  CHECK_THAT(
      problem_of(int64_part("x"), with_buffer(three, 1, std::string(23, 'x'))),
      Contains(
          "row 0: can't read its record batch: a buffer of part `x` has 23 bytes, but needs at least 24"));
  arrow_data few = three;
  few.buffers.pop_back();
  CHECK_THAT(problem_of(int64_part("x"), few), Contains("the batch has fewer buffers than the schema needs"));
  few = three;
  few.nodes.clear();
  CHECK_THAT(problem_of(int64_part("x"), few),
             Contains("the batch has fewer nodes than the schema has fields"));
  few = three;
  few.rows = 4;
  CHECK_THAT(problem_of(int64_part("x"), few), Contains("part `x` has 3 rows, but needs 4"));
  few = three;
  few.nodes[0].first = -1;
  CHECK_THAT(problem_of(int64_part("x"), few), Contains("part `x` has a negative length"));
  few = three;
  few.nodes[0] = {std::int64_t{1} << 62, 0};
  CHECK_THAT(problem_of(int64_part("x"), few), Contains("more rows than memory can address"));
  few = three;
  few.nodes[0].second = 1; // a null, but no bitmap
  CHECK_THAT(problem_of(int64_part("x"), few), Contains("has 0 bytes, but needs at least 1"));
  few = three;
  few.rows = -1;
  CHECK_THAT(problem_of(int64_part("x"), few), Contains("the batch has a negative number of rows"));
  few.rows = std::int64_t{1} << 41;
  CHECK_THAT(problem_of(int64_part("x"), few), Contains("more than 2^40 rows"));
}

TEST_CASE("invalid offsets fail only their row") {
  const temporary_folder folder;
  const auto texts = text_data({"ab", "cd", "ef"});
  const auto offsets = [&](std::vector<std::int32_t> all) { return with_buffer(texts, 1, raw_bytes(all)); };
  for (const auto& bad : {offsets({0, 7, 4, 6}), offsets({0, 1, 0, 6}), offsets({0, -2, 4, 6})}) {
    const auto path = folder.write("a", arrow_writer({text_part("x")}).batch(bad).stream());
    const auto p = fl::arrow_rows<std::string>({path}, {"x"}) | fl::map(value);
    const auto result = run_to_end(p.finite({.on_error = fl::on_error::skip}));
    CHECK_FALSE(result.skipped.empty());
    CHECK_THAT(result.skipped[0].message, Contains(", column `x`: offsets "));
    CHECK(result.items.size() + result.skipped.size() == 3);
  }
  const auto list = list_data<std::int16_t>({std::vector<std::int16_t>{1, 2}});
  CHECK_THAT(problem_of<std::span<const std::int16_t>>(
                 list_part("x", {"e", type_kind::integer, 16}),
                 with_buffer(list, 1, raw_bytes(std::vector<std::int32_t>{0, 3}))),
             Contains("offsets 0 and 3 aren't within the data, which has a length of 2"));
}

TEST_CASE("dictionaries that contain each other are refused") {
  const temporary_folder folder;
  arrow_part outer = list_part("x", text_part("e"));
  outer.dictionary = 1;
  outer.children[0].dictionary = 1;
  const auto index = number_data<std::int32_t>({0});
  arrow_data lists = data_of_validity({true});
  lists.buffers.push_back(raw_bytes(std::vector<std::int32_t>{0, 1}));
  lists.append(index);
  const auto path = folder.write("a", arrow_writer({outer}).dictionary(1, lists).batch({index}).stream());
  const auto result = run_to_end((fl::arrow_rows<fl::arrow_value>({path}, {"x"}) | fl::prefetch(1)).finite());
  REQUIRE(result.failed);
  CHECK_THAT(result.failed->message, Contains("the dictionaries contain each other"));
}

TEST_CASE("a schema that is nested too deeply is refused") {
  const temporary_folder folder;
  arrow_part part = int64_part("e");
  for (int i = 0; i < 500; ++i) part = list_part("x", part);
  const auto path = folder.write("a", arrow_writer({part}).stream());
  CHECK_THAT(
      run_to_end((fl::arrow_rows<fl::arrow_value>({path}, {"x"}) | fl::prefetch(1)).finite()).failed->message,
      Contains("the metadata is damaged"));
}

TEST_CASE("files with any byte changed, or cut off anywhere, are refused or read") {
  const temporary_folder folder;
  arrow_part dictionary = text_part("d");
  dictionary.dictionary = 3;
  arrow_writer writer(
      {int64_part("x"), struct_part("s", {text_part("t")}), list_part("l", int64_part("e")), dictionary});
  const std::vector<bool> all(3, true);
  writer.dictionary(3, text_data({"a", "b"}));
  writer.batch({counted(0, 3), struct_data(all, {text_data({"a", std::nullopt, "c"})}),
                list_data<std::int64_t>({numbers{1}, std::nullopt, numbers{2, 3}}),
                number_data<std::int32_t>({1, 0, std::nullopt})});
  arrow_part price{"p", type_kind::decimal, 64}, time{"u", type_kind::timestamp};
  price.scale = 2;
  time.timezone = "UTC";
  arrow_writer other({{"v", type_kind::utf8_view},
                      {"f", type_kind::fixed_size_list, 2, true, {{"e", type_kind::integer, 16}}},
                      price,
                      time,
                      {"m", type_kind::map, 0, true, {struct_part("e", {text_part("k"), int64_part("v")})}}});
  arrow_data map = data_of_validity({true, true});
  map.buffers.push_back(raw_bytes(std::vector<std::int32_t>{0, 1, 2}));
  other.batch({view_data({"short", "a text in a buffer"}),
               fixed_list_data({true, true}, number_data<std::int16_t>({1, 2, 3, std::nullopt})),
               counted(0, 2), counted(0, 2),
               map.append(struct_data({true, true}, {text_data({"a", "b"}), counted(0, 2)}))});
  std::size_t values = 0;
  const auto go_through = [&](const std::string& bytes, const std::vector<std::string>& columns) {
    const std::string path = folder.write("a", bytes);
    for (const std::string& column : columns) {
      auto source =
          fl::arrow_rows<fl::arrow_value>({path}, {column}, {.on_notice = [](const std::string&) {}})
              .source();
      source.start_epoch({});
      for (int left = 50; left > 0; --left) {
        try {
          const auto row = source.next();
          if (!row) break;
          look_at_all(**&*row, values);
        } catch (const fl::arrow_error&) {
        }
      }
      std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now());
    }
  };
  const std::vector<std::string> columns{"x", "s.t", "l", "d"}, others{"v", "f", "p", "u", "m"};
  for (const auto& [whole, read] :
       {std::pair(writer.stream(), columns), {writer.file(), columns}, {other.stream(), others}}) {
    for (std::size_t i = 0; i < whole.size(); i += 3) go_through(whole.substr(0, i), read);
    for (std::size_t i = 0; i < whole.size(); ++i)
      for (const int flip : {0x80, 0x01, 0xff}) {
        std::string changed = whole;
        changed[i] = static_cast<char>(changed[i] ^ flip);
        go_through(changed, read);
      }
  }
  CHECK(values > 1000);
}
