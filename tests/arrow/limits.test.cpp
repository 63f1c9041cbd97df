// SPDX-License-Identifier: MIT
// The memory that small or hostile files can take: arrow_options and other bounds.
#include <feedline/arrow/rows.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#ifdef FEEDLINE_ARROW_ZSTD
#include <zstd.h>
#endif

#include <feedline/source/global_shuffle.hpp>
#include <feedline/stage/map.hpp>

#include "support/arrow_writer.hpp"
#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using namespace feedline::test;
using Catch::Contains;

namespace {

/// The values of column x, or the messages of those that can't be read.
template <class T>
std::vector<std::string> values_of(
    const std::string& bytes, const fl::arrow_options& options = {},
    std::string (*text)(const T&) = [](const T&) { return std::string("read"); }) {
  const temporary_folder folder;
  auto source = fl::arrow_rows<T>({folder.write("a", bytes)}, {"x"}, options).source();
  source.start_epoch({});
  std::vector<std::string> values;
  for (;;) {
    try {
      const auto row = source.next();
      if (!row) return values;
      values.push_back(text(**row));
    } catch (const fl::arrow_error& error) {
      values.emplace_back(error.what());
    }
  }
}

std::string with_size(std::int64_t size, const std::string& frame) {
  return raw_bytes(std::vector{size}) + frame;
}

arrow_part in_dictionary(arrow_part part) {
  part.name = "x";
  part.dictionary = 1;
  return part;
}

/// Lists of references to the texts of a dictionary, one list for each number of references to text 0.
std::string lists_of_references(const std::string& text, const std::vector<std::int32_t>& counts) {
  std::vector<std::int32_t> offsets{0};
  for (const std::int32_t count : counts) offsets.push_back(offsets.back() + count);
  arrow_data lists = data_of_validity(std::vector<bool>(counts.size(), true));
  lists.buffers.push_back(raw_bytes(offsets));
  lists.append(
      number_data(std::vector<std::optional<std::int32_t>>(static_cast<std::size_t>(offsets.back()), 0)));
  return arrow_writer({list_part("x", in_dictionary(text_part("e")))})
      .dictionary(1, text_data({text}))
      .batch(std::vector{lists})
      .stream();
}

using strings = std::vector<std::string>;

} // namespace

TEST_CASE("a buffer that announces more than max_batch_bytes is refused before it is decompressed") {
  arrow_writer writer({int64_part("x")});
  writer.compress(1, [](const std::string&) { return with_size((1 << 30) + 1, std::string(20'000, 'x')); });
  const auto values = values_of<std::int64_t>(writer.batch({counted(0, 1)}).stream());
  REQUIRE(values.size() == 1);
  CHECK_THAT(values[0],
             Contains("row 0: can't read its record batch: it takes more than the 1073741824 bytes "
                      "that arrow_options::max_batch_bytes allows; raise it"));
  // The damage is found with a larger limit.
  const auto allowed = values_of<std::int64_t>(writer.stream(), {.max_batch_bytes = std::size_t{2} << 30});
  CHECK_THAT(allowed.at(0), !Contains("max_batch_bytes"));
}

#ifdef FEEDLINE_ARROW_ZSTD
TEST_CASE("a buffer that two columns share counts for both") {
  arrow_writer writer({text_part("x"), text_part("y")});
  writer.compress(1, [](const std::string& bytes) {
    std::string frame(ZSTD_compressBound(bytes.size()), '\0');
    frame.resize(ZSTD_compress(frame.data(), frame.size(), bytes.data(), bytes.size(), 1));
    return with_size(static_cast<std::int64_t>(bytes.size()), frame);
  });
  const auto text = text_data({std::string(1'000'000, 'a')});
  const std::string bytes = writer.share_equal_buffers().batch({text, text}).stream();
  CHECK(bytes.size() < 2'000);
  const temporary_folder folder;
  using both = std::pair<std::string_view, std::string_view>;
  const auto read = [&](std::size_t most) {
    return run_to_end(
        (fl::arrow_rows<both>({folder.write("a", bytes)}, {"x", "y"}, {.max_batch_bytes = most}) |
         fl::map([](const auto& row) {
           return row->first.size() + row->second.size();
         })).finite());
  };
  CHECK(read(2'100'000).items == std::vector<std::size_t>{2'000'000});
  REQUIRE(read(1'900'000).failed);
  CHECK_THAT(read(1'900'000).failed->message, Contains("more than the 1900000 bytes"));

  // Rows can keep as much, and a random order keeps the last batches.
  const auto source = [&](std::size_t most) {
    return fl::arrow_rows<both>({folder / "a"}, {"x", "y"}, {.max_batch_bytes = most});
  };
  constexpr std::size_t row = sizeof(decltype(source(1))::item);
  CHECK(source(1'900'000).source().max_item_bytes() == row + 1'900'000);
  const std::size_t most = source(std::size_t{1} << 30).source().max_item_bytes().value();
  CHECK((most > row + 2'000'000 && most < row + 2'001'000));
  CHECK(source(1'900'000).source().bytes_held_by_position() == 1'900'000);
  const auto in_order = source(1 << 30).memory({}).bytes().value();
  const auto shuffled = (source(1 << 30) | fl::global_shuffle()).memory({}).bytes().value();
  CHECK(shuffled > in_order + 16 * 2'000'000);
}
#endif

TEST_CASE("copies of numbers that aren't aligned, and the tables of columns, count towards max_batch_bytes") {
  const std::vector<std::int64_t> numbers(1000, 7);
  const auto list = list_data<std::int64_t>({numbers});
  arrow_writer writer({list_part("x", int64_part("e"))});
  const auto bytes = writer.shift(1).batch(std::vector{list}).stream();
  using span = std::span<const std::int64_t>;
  CHECK(values_of<span>(bytes, {.max_batch_bytes = 10'000}).at(0) == "read");
  CHECK_THAT(values_of<span>(bytes, {.max_batch_bytes = 8'000}).at(0), Contains("max_batch_bytes allows"));

  const std::vector<arrow_part> parts(100, int64_part("e"));
  const std::vector<arrow_data> data(100, counted(0, 1));
  const auto wide = arrow_writer({struct_part("x", parts)}).batch({struct_data({true}, data)}).stream();
  CHECK(values_of<fl::arrow_value>(wide).at(0) == "read");
  CHECK_THAT(values_of<fl::arrow_value>(wide, {.max_batch_bytes = 2'000}).at(0),
             Contains("max_batch_bytes allows"));
}

TEST_CASE("max_batch_bytes is also the limit for all dictionaries of a file") {
  const auto list = list_data<std::int64_t>({std::vector<std::int64_t>(1000, 7)});
  arrow_writer writer({in_dictionary(list_part("x", int64_part("e")))});
  writer.shift(1);
  for (int i = 0; i < 3; ++i)
    writer.dictionary(1, list, i > 0).batch(std::vector{number_data<std::int32_t>({i, 0})});
  using span = std::span<const std::int64_t>;
  const auto read = [&](std::size_t most) {
    return values_of<span>(writer.stream(), {.max_batch_bytes = most});
  };
  CHECK(read(30'000) == strings(6, "read"));
  const auto values = read(20'000);
  REQUIRE(values.size() == 6);
  for (const std::size_t i : {0u, 1u, 2u, 3u}) CHECK(values[i] == "read");
  for (const std::size_t i : {4u, 5u})
    CHECK_THAT(
        values[i],
        Contains("can't read its record batch: the file's dictionaries take more than the 20000 bytes"));
}

TEST_CASE("texts that a row copies are limited, however often it refers to one, and the next row follows") {
  const auto bytes = lists_of_references(std::string(1000, 'a'), {5, 50, 4});
  const auto size = [](const strings& all) { return std::to_string(all.size()) + " " + all.back(); };
  const std::string text(1000, 'a');
  const auto values = values_of<strings>(bytes, {.max_row_bytes = 10'000}, size);
  REQUIRE(values.size() == 3);
  CHECK(values[0] == "5 " + text);
  CHECK_THAT(values[1], Contains("row 1, column `x`: ") &&
                            Contains("the row's texts and lists have more than the 10000 bytes that "
                                     "arrow_options::max_row_bytes allows; raise it"));
  CHECK(values[2] == "4 " + text);
  CHECK(values_of<strings>(bytes, {}, size).at(1) == "50 " + text);
  CHECK(values_of<std::optional<strings>>(bytes, {.max_row_bytes = 10'000}).at(0) == "read");
  CHECK_THAT(values_of<std::optional<strings>>(bytes, {.max_row_bytes = 10'000}).at(1),
             Contains("max_row_bytes"));
  // Views own nothing.
  CHECK(values_of<std::vector<std::string_view>>(bytes, {.max_row_bytes = 10'000}) == strings(3, "read"));

  const auto as_strings = [](const fl::arrow_value& value) {
    return std::to_string(value.as<strings>().size());
  };
  const auto by_value = values_of<fl::arrow_value>(bytes, {.max_row_bytes = 10'000}, as_strings);
  CHECK(by_value.at(0) == "5");
  CHECK_THAT(by_value.at(1), Contains("max_row_bytes"));
  CHECK(by_value.at(2) == "4");
  const auto element = [](const fl::arrow_value& value) { return value[0].as<std::string>(); };
  CHECK_THAT(values_of<fl::arrow_value>(bytes, {.max_row_bytes = 999}, element).at(0),
             Contains("the 999 bytes"));
  CHECK(values_of<fl::arrow_value>(bytes, {.max_row_bytes = 1000}, element).at(0) == text);
}

TEST_CASE("a small file can't make a row of gigabytes") {
  const auto values = values_of<strings>(lists_of_references(std::string(100'000, 'a'), {5'000, 1}));
  REQUIRE(values.size() == 2);
  CHECK_THAT(values[0], Contains("more than the 268435456 bytes"));
  CHECK(values[1] == "read");
}

TEST_CASE("a memory_budget counts rows that own their memory with max_row_bytes") {
  const temporary_folder folder;
  const auto path = folder.write("a", lists_of_references("text", {2}));
  const auto most = [&](const fl::arrow_options& options) {
    return fl::arrow_rows<strings>({path}, {"x"}, options).source().max_item_bytes();
  };
  constexpr std::size_t row = sizeof(fl::arrow_row<strings>);
  CHECK(most({.max_row_bytes = 1000}) == row + 1000);
  CHECK(most({}) == row + (std::size_t{1} << 28));
  CHECK(fl::arrow_rows<std::vector<std::string_view>>({path}, {"x"}).source().max_item_bytes() ==
        sizeof(fl::arrow_row<std::vector<std::string_view>>) + (std::size_t{1} << 28));
  const auto small = fl::arrow_rows<strings>({path}, {"x"}, {.max_row_bytes = 1000});
  CHECK(collect(small.finite({.memory_budget = 1 << 20})).size() == 1);
}

TEST_CASE("limits that were negative are refused") {
  CHECK(throws_saying<std::invalid_argument>("arrow_rows: max_row_bytes", [] {
    fl::arrow_rows<std::int64_t>({"a"}, {"x"}, {.max_row_bytes = static_cast<std::size_t>(-1)});
  }));
  CHECK(throws_saying<std::invalid_argument>("arrow_rows: max_batch_bytes", [] {
    fl::arrow_rows<std::int64_t>({"a"}, {"x"}, {.max_batch_bytes = static_cast<std::size_t>(-1)});
  }));
}

TEST_CASE("each batch has the values of a dictionary that were added before it") {
  constexpr std::int32_t deltas = 200;
  arrow_writer writer({in_dictionary(text_part("x"))});
  for (std::int32_t i = 0; i < deltas; ++i)
    writer.dictionary(1, text_data({std::to_string(i)}), i > 0)
        .batch(std::vector{number_data<std::int32_t>({i, i / 2, i / 3, i + 1})});
  const auto text = [](const std::string_view& value) { return std::string(value); };
  const auto in_order = values_of<std::string_view>(writer.stream(), {}, text);
  REQUIRE(in_order.size() == 4 * deltas);
  bool all_right = true;
  for (std::size_t i = 0; i < deltas; ++i) {
    for (std::size_t n = 1; n <= 3; ++n)
      all_right = all_right && in_order[4 * i + n - 1] == std::to_string(i / n);
    all_right =
        all_right && in_order[4 * i + 3].ends_with("value " + std::to_string(i + 1) +
                                                   " of a dictionary that has only " + std::to_string(i + 1));
  }
  CHECK(all_right);
  // In a file, all parts apply to all batches.
  const auto in_file = values_of<std::string_view>(writer.file(), {}, text);
  REQUIRE(in_file.size() == 4 * deltas);
  for (std::size_t i = 0; i + 1 < deltas; ++i)
    all_right =
        all_right && in_file[4 * i + 3] == std::to_string(i + 1) && in_file[4 * i] == std::to_string(i);
  CHECK(all_right);
}

TEST_CASE("a footer that names a batch twice is refused: each one would take memory for all of its columns") {
  arrow_writer writer({int64_part("x")});
  writer.batch({counted(0, 2)});
  CHECK(values_of<std::int64_t>(writer.file()).size() == 2);
  arrow_writer twice({int64_part("x")});
  const auto values = values_of<std::int64_t>(twice.batch({counted(0, 2)}).name_twice().file());
  REQUIRE(values.size() == 1);
  CHECK_THAT(values[0], Contains("the footer refers twice to the message at offset "));
}

TEST_CASE("a schema whose columns share one long name is refused: it would be copied for each") {
  const std::vector<arrow_part> few(3, int64_part("x"));
  CHECK(values_of<fl::arrow_value>(arrow_writer({struct_part("x", few)}).stream()).empty());
  const std::vector<arrow_part> many(1'000, int64_part(std::string(100'000, 'n')));
  const auto values = values_of<fl::arrow_value>(arrow_writer({struct_part("x", many)}).stream());
  REQUIRE(values.size() == 1);
  CHECK_THAT(values[0], Contains("the texts of the schema are longer than its metadata"));
}
