// SPDX-License-Identifier: MIT
// Streams from pipes.
#include <feedline/arrow/rows.hpp>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <feedline/source/global_shuffle.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>

#include "support/arrow_writer.hpp"
#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/temporary_folder.hpp"

namespace fl = feedline;
using namespace feedline::test;
using Catch::Contains;
using numbers = std::vector<std::int64_t>;

namespace {

constexpr auto value = [](const auto& row) { return *row; };

std::string make_pipe(const temporary_folder& folder, const char* name = "pipe") {
  const std::string path = folder / name;
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  return path;
}

/// Writes all bytes as soon as a reader opens the pipe.
std::jthread write_to(const std::string& path, std::string bytes) {
  return std::jthread([path, bytes = std::move(bytes)] { std::ofstream(path, std::ios::binary) << bytes; });
}

auto read(const std::string& path) { return fl::arrow_rows<std::int64_t>({path}, {"x"}) | fl::map(value); }

} // namespace

TEST_CASE("streams and files are read from a named pipe") {
  const temporary_folder folder;
  const std::string path = make_pipe(folder);
  arrow_writer writer({int64_part("x")});
  writer.batch({counted(0, 30'000)}).batch({counted(30'000, 40'000)});
  for (const std::string& bytes : {writer.stream(), writer.open(), writer.file()})
    for (const std::size_t workers : {1u, 8u}) {
      const auto writing = write_to(path, bytes);
      const auto all = collect(
          (fl::arrow_rows<std::int64_t>({path}, {"x"}) | fl::map(value, fl::workers{workers})).finite());
      REQUIRE(all.size() == 40'000);
      CHECK(all[39'999] == 39'999);
    }
}

TEST_CASE("a file with its schema only at its end is read as a whole") {
  const temporary_folder folder;
  const std::string path = make_pipe(folder);
  const std::string bytes =
      arrow_writer({int64_part("x")}).batch({counted(0, 2)}).batch({counted(2, 3)}).file(false);
  CHECK(collect(read(folder.write("a", bytes)).finite()) == numbers{0, 1, 2});
  const auto writing = write_to(path, bytes);
  CHECK(collect(read(path).finite()) == numbers{0, 1, 2});
}

TEST_CASE("a pipe of another kind of file is refused by its kind") {
  const temporary_folder folder;
  const std::string path = make_pipe(folder);
  const auto writing = write_to(path, std::string("RIFF\x24\0\0\0WAVEfmt ", 16));
  const auto result = run_to_end(read(path).finite());
  REQUIRE(result.failed);
  CHECK_THAT(result.failed->message, Contains("this isn't an Arrow file: it is a RIFF file"));
}

TEST_CASE("a damaged file from a pipe isn't refused as another kind of file") {
  const temporary_folder folder;
  const std::string path = make_pipe(folder);
  std::string bytes = arrow_writer({int64_part("x")}).batch({counted(0, 2)}).file();
  const auto writing = write_to(path, bytes.substr(0, 20)); // cut off inside the schema
  const auto result = run_to_end(read(path).finite());
  REQUIRE(result.failed);
  CHECK_THAT(result.failed->message, Contains("is cut off: ") && !Contains("this isn't an Arrow file"));
}

TEST_CASE("rows of a pipe keep the memory of their views") {
  const temporary_folder folder;
  const std::string path = make_pipe(folder);
  std::vector<fl::arrow_row<std::string_view>> rows;
  {
    const auto writing =
        write_to(path, arrow_writer({text_part("x")}).batch({text_data({"one", "two"})}).stream());
    rows = collect((fl::arrow_rows<std::string_view>({path}, {"x"}) | fl::prefetch(2)).finite());
  }
  REQUIRE(rows.size() == 2);
  CHECK(*rows[1] == "two");
  CHECK(rows[1].origin() == path + ": row 1");
}

TEST_CASE("dictionaries from a pipe are extended and replaced") {
  const temporary_folder folder;
  const std::string path = make_pipe(folder);
  arrow_part part = text_part("x");
  part.dictionary = 1;
  const auto at = [](std::vector<std::optional<std::int32_t>> all) { return std::vector{number_data(all)}; };
  arrow_writer writer({part});
  writer.dictionary(1, text_data({"a"})).dictionary(1, text_data({"b"}), true).batch(at({1, 0}));
  writer.dictionary(1, text_data({"c"})).batch(at({0}));
  const auto writing = write_to(path, writer.stream());
  const auto rows = fl::arrow_rows<std::string>({path}, {"x"}) | fl::map(value);
  CHECK(collect(rows.finite()) == std::vector<std::string>{"b", "a", "c"});
}

TEST_CASE("streams one after another in a pipe are left out with a notice, or read") {
  const temporary_folder folder;
  const std::string path = make_pipe(folder);
  arrow_part part = text_part("x");
  part.dictionary = 1;
  const auto stream = [&](const char* text) {
    return arrow_writer({part})
        .dictionary(1, text_data({text}))
        .batch(std::vector{number_data<std::int32_t>({0, 0})})
        .stream();
  };
  const std::string first = stream("a"), second = stream("b");
  using texts = std::vector<std::string>;
  for (const bool concatenated : {false, true}) {
    std::vector<std::string> notices;
    const auto rows =
        fl::arrow_rows<std::string>({path}, {"x"},
                                    {.concatenated = concatenated,
                                     .on_notice = [&](const std::string& s) { notices.push_back(s); }}) |
        fl::map(value);
    {
      const auto writing = write_to(path, first + std::string(4, '\0') + second);
      CHECK(collect(rows.finite()) == (concatenated ? texts{"a", "a", "b", "b"} : texts{"a", "a"}));
    }
    REQUIRE(notices.size() == (concatenated ? 0 : 1));
    if (!concatenated)
      CHECK_THAT(notices[0], Contains(path + ": " + std::to_string(second.size()) + " bytes follow the end"));
    const auto writing =
        write_to(path, first + arrow_writer({text_part("x")}).batch({text_data({"c"})}).stream());
    const auto result = run_to_end(rows.finite());
    CHECK(result.items == texts{"a", "a"});
    CHECK(result.failed.has_value() == concatenated);
    if (result.failed)
      CHECK_THAT(result.failed->message,
                 Contains("other columns than the one before it: `x`: utf8, not `x`: dict"));
  }
}

TEST_CASE("a pipe that ends early is an error after its complete batches, and other files follow") {
  const temporary_folder folder;
  const std::string path = make_pipe(folder, "a");
  folder.write("b", arrow_writer({int64_part("x")}).batch({counted(7, 8)}).stream());
  arrow_writer writer({int64_part("x")});
  const std::size_t lost = 5;
  const std::string whole = writer.batch({counted(0, 2)}).batch({counted(2, 4)}).open();
  const auto writing = write_to(path, whole.substr(0, whole.size() - lost));
  const auto result = run_to_end(read(folder / "?").finite({.on_error = fl::on_error::skip}));
  CHECK(result.items == numbers{0, 1, 7});
  REQUIRE(result.skipped.size() == 1);
  CHECK_THAT(result.skipped[0].message, Contains(path + ": message at offset ") &&
                                            Contains("the body is cut off: 16 bytes announced, 11 received"));
}

TEST_CASE("rows that have arrived are yielded while the pipe is silent, and a stop ends the wait for more") {
  const temporary_folder folder;
  const std::string path = make_pipe(folder);
  arrow_writer writer({int64_part("x")});
  const std::string bytes = writer.batch({counted(0, 3)}).open();
  std::latch done(1);
  std::jthread writing([&] {
    std::ofstream file(path, std::ios::binary);
    file << bytes << std::flush;
    done.wait();
  });
  auto loader = read(path).finite();
  for (std::int64_t i = 0; i < 3; ++i) CHECK(loader.next() == i);
  loader.stop();
  CHECK_FALSE(loader.next());
  done.count_down();
}

TEST_CASE("a silent pipe doesn't hold back the last row of the file before it") {
  const temporary_folder folder;
  const std::string before =
      folder.write("a", arrow_writer({int64_part("x")}).batch({counted(0, 3)}).stream());
  auto loader = (fl::arrow_rows<std::int64_t>({before, make_pipe(folder)}, {"x"}) | fl::map(value)).finite();
  for (std::int64_t i = 0; i < 3; ++i) CHECK(loader.next() == i);
}

TEST_CASE("a pipe without a writer doesn't delay a stop") {
  const temporary_folder folder;
  auto loader = read(make_pipe(folder)).finite();
  loader.stop();
  { auto other = read(folder / "pipe").finite(); } // stopped by its destructor
  CHECK_FALSE(loader.next());
}

TEST_CASE("a run over a pipe resumes if the pipe yields the same data again") {
  const temporary_folder folder;
  const std::string path = make_pipe(folder);
  const std::string bytes =
      arrow_writer({int64_part("x")}).batch({counted(0, 10)}).batch({counted(10, 20)}).stream();
  std::optional<fl::checkpoint> state;
  {
    const auto writing = write_to(path, bytes);
    auto loader = read(path).finite();
    for (int i = 0; i < 13; ++i) loader.next();
    state = loader.checkpoint();
    while (loader.next()) continue;
  }
  const auto writing = write_to(path, bytes);
  CHECK(collect(read(path).finite({.resume = *state})) == numbers{13, 14, 15, 16, 17, 18, 19});
}

TEST_CASE("a pipe doesn't support a global shuffle") {
  const temporary_folder folder;
  const std::string path = make_pipe(folder);
  const auto p = fl::arrow_rows<std::int64_t>({path}, {"x"}) | fl::global_shuffle() | fl::map(value);
  const auto result = run_to_end(p.finite());
  REQUIRE(result.failed);
  CHECK_THAT(result.failed->message, Contains("the rows of a pipe can only be read in order"));
}
