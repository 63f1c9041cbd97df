// SPDX-License-Identifier: MIT
// Record batches with compressed buffers.
#include <feedline/arrow/rows.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#ifdef FEEDLINE_ARROW_LZ4
#include <lz4frame.h>
#endif
#ifdef FEEDLINE_ARROW_ZSTD
#include <zstd.h>
#endif

#include <feedline/source/global_shuffle.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/testing.hpp>

#include "support/arrow_writer.hpp"
#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/temporary_folder.hpp"

namespace fl = feedline;
using namespace feedline::test;
using Catch::Contains;
using items = std::vector<std::pair<std::string, std::optional<std::int64_t>>>;

namespace {

std::string with_size(std::int64_t size, const std::string& frame) {
  return raw_bytes(std::vector{size}) + frame;
}

std::string not_compressed(const std::string& bytes) { return with_size(-1, bytes); }

#ifdef FEEDLINE_ARROW_LZ4
std::string lz4(const std::string& bytes) {
  std::string frame(LZ4F_compressFrameBound(bytes.size(), nullptr), '\0');
  frame.resize(LZ4F_compressFrame(frame.data(), frame.size(), bytes.data(), bytes.size(), nullptr));
  return with_size(static_cast<std::int64_t>(bytes.size()), frame);
}
#endif

#ifdef FEEDLINE_ARROW_ZSTD
std::string zstd(const std::string& bytes) {
  std::string frame(ZSTD_compressBound(bytes.size()), '\0');
  frame.resize(ZSTD_compress(frame.data(), frame.size(), bytes.data(), bytes.size(), 1));
  return with_size(static_cast<std::int64_t>(bytes.size()), frame);
}
#endif

constexpr int rows_in_batch = 20, batches = 5;

items expected() {
  items all;
  for (int i = 0; i < rows_in_batch * batches; ++i)
    all.emplace_back(std::string(100, 'a') + std::to_string(i),
                     i % 3 == 0 ? std::nullopt : std::optional<std::int64_t>(i));
  return all;
}

std::string compressed(int codec, arrow_writer::compressor with) {
  arrow_writer writer(
      {text_part("t"), int64_part("n"), list_part("unused", int64_part("e")), {"v", type_kind::utf8_view}});
  writer.compress(codec, with);
  const items all = expected();
  for (std::size_t b = 0; b < batches; ++b) {
    std::vector<std::optional<std::string>> texts;
    std::vector<std::optional<std::int64_t>> numbers;
    for (std::size_t i = b * rows_in_batch; i < (b + 1) * rows_in_batch; ++i) {
      texts.emplace_back(all[i].first);
      numbers.push_back(all[i].second);
    }
    writer.batch(
        {text_data(texts), number_data(numbers),
         list_data<std::int64_t>(std::vector<std::optional<std::vector<std::int64_t>>>(rows_in_batch)),
         view_data(texts)});
  }
  return writer.stream();
}

constexpr auto to_pair = [](const auto& row) { return std::pair(std::string(row->first), row->second); };

auto read(const std::string& path, const char* texts = "t") {
  return fl::arrow_rows<std::pair<std::string_view, std::optional<std::int64_t>>>({path}, {texts, "n"});
}

void check_all(int codec, arrow_writer::compressor with) {
  const temporary_folder folder;
  const auto path = folder.write("a", compressed(codec, with));
  for (const std::size_t workers : {1u, 8u})
    CHECK(collect((read(path) | fl::map(to_pair, fl::workers{workers})).finite()) == expected());
  CHECK(collect((read(path, "v") | fl::map(to_pair, fl::workers{8})).finite()) == expected());
  CHECK(collect((read(path) | fl::global_shuffle() | fl::map(to_pair, fl::workers{4})).finite()).size() ==
        expected().size());
  // Data that isn't compressed is a view of the file.
  const std::size_t most = read(path).source().max_item_bytes().value();
  const std::size_t row = sizeof(decltype(read(path))::item);
  CHECK((with == not_compressed ? most == row : most > row + 4000 && most < row + 12'000));
  folder.write("b", compressed(codec, with));
  folder.write("c", compressed(codec, with));
  fl::testing::check_source([&] { return read(folder / "?"); }, {.places = 6, .has_budget = true}, to_pair);
}

} // namespace

TEST_CASE("uncompressed buffers of a compressed batch are read") { check_all(0, not_compressed); }

#ifdef FEEDLINE_ARROW_LZ4
TEST_CASE("LZ4 buffers are decompressed") { check_all(0, lz4); }
#endif

#ifdef FEEDLINE_ARROW_ZSTD
TEST_CASE("ZSTD buffers are decompressed") { check_all(1, zstd); }
#endif

TEST_CASE("columns that nobody reads aren't decompressed") {
  const temporary_folder folder;
  arrow_writer writer({text_part("t"), int64_part("n"), {"v", type_kind::utf8_view}, text_part("damaged")});
  // A buffer of more than 100 bytes is damaged.
  writer.compress(0, [](const std::string& bytes) {
    return with_size(bytes.size() > 100 ? std::int64_t{-2} : std::int64_t{-1}, bytes);
  });
  const std::string large(200, 'x');
  writer.batch({text_data({"a"}), number_data<std::int64_t>({1}), view_data({large}), text_data({large})});
  const auto path = folder.write("a", writer.stream());
  CHECK(collect((read(path) | fl::map(to_pair)).finite()) == items{{"a", 1}});
  for (const char* damaged : {"v", "damaged"}) {
    const auto result = run_to_end((read(path, damaged) | fl::map(to_pair)).finite());
    REQUIRE(result.failed);
    CHECK_THAT(result.failed->message, Contains("a compressed buffer can't have a size of -2 bytes"));
  }
}

TEST_CASE("buffers of views that overlap are refused, which could be decompressed any number of times") {
  const temporary_folder folder;
  arrow_writer writer({{"v", type_kind::utf8_view}, int64_part("n")});
  writer.compress(0, not_compressed).share_equal_buffers();
  writer.batch(
      {view_data({std::string(200, 'x'), std::string(200, 'x')}), number_data<std::int64_t>({1, 2})});
  const auto result = run_to_end((read(folder.write("a", writer.stream()), "v") | fl::map(to_pair)).finite());
  REQUIRE(result.failed);
  CHECK_THAT(result.failed->message,
             Contains("row 0: can't read its record batch: the buffers of part `v` overlap"));
}

TEST_CASE("damaged compressed buffers are refused with a clear message") {
  const temporary_folder folder;
  const auto message = [&](int codec, arrow_writer::compressor with) {
    const auto result =
        run_to_end((read(folder.write("a", compressed(codec, with))) | fl::map(to_pair)).finite());
    REQUIRE(result.failed);
    CHECK_THAT(result.failed->message, Contains("row 0: can't read its record batch: "));
    return result.failed->message;
  };
  CHECK_THAT(message(0, [](const std::string&) { return std::string("1234567"); }), Contains("is cut off"));
  CHECK_THAT(message(0, [](const std::string& b) { return with_size(std::int64_t{1} << 40, b); }),
             Contains("can't have a size of 1099511627776 bytes"));
  CHECK_THAT(message(0, [](const std::string& b) { return with_size(-2, b); }),
             Contains("can't have a size of -2 bytes"));
  CHECK_THAT(message(2, not_compressed), Contains("compressed with an unknown method"));
#ifdef FEEDLINE_ARROW_LZ4
  CHECK_THAT(message(0, [](const std::string& b) { return lz4(b).substr(0, 20); }), Contains("is damaged"));
  CHECK_THAT(message(0, [](const std::string& b) { return with_size(8, b); }), Contains("is damaged"));
#else
  CHECK_THAT(message(0, [](const std::string& b) { return with_size(8, b); }),
             Contains("with LZ4, but this program was built without liblz4"));
#endif
#ifdef FEEDLINE_ARROW_ZSTD
  CHECK_THAT(message(1, [](const std::string& b) { return zstd(b).substr(0, 20); }), Contains("is damaged"));
  CHECK_THAT(message(1, [](const std::string& b) { return with_size(7, zstd(b).substr(8)); }),
             Contains("is damaged"));
#else
  CHECK_THAT(message(1, [](const std::string& b) { return with_size(8, b); }),
             Contains("with ZSTD, but this program was built without libzstd"));
#endif
}
