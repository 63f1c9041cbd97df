// SPDX-License-Identifier: MIT
#include <feedline/source/records.hpp>

#include <feedline/source/indexed_lines.hpp>

#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/lines.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/page_cache.hpp"
#include "support/refusing.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using fl::test::collect;
using fl::test::comes_into_memory;
using fl::test::file_system_reads_ahead;
using fl::test::run_to_end;
using fl::test::temporary_folder;
using fl::test::throws_saying;
using fl::test::worker_counts;

namespace {

struct position {
  std::uint8_t board[5];
  std::int16_t score;

  friend bool operator==(const position&, const position&) = default;
};

static_assert(sizeof(position) == 8);
static_assert(std::is_same_v<decltype(fl::records<position>({}))::item, position>);
static_assert(std::is_same_v<decltype(fl::records({}, 3))::item, std::vector<std::byte>>);

/// The bytes of numbers, in the machine's byte order.
std::string bytes_of(const std::vector<int>& numbers) {
  std::string bytes(numbers.size() * sizeof(int), '\0');
  if (!numbers.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

using numbers = std::vector<int>;

/// Each number with its index.
auto numbered(const std::string& pattern, std::size_t workers = 1) {
  return fl::records<int>({pattern}) |
         fl::map([](int n, fl::context& c) { return std::pair(c.index, n); }, fl::workers{workers});
}

constexpr std::uint64_t second_file = std::uint64_t{1} << 40;

} // namespace

TEST_CASE("records yields each record of its files as a value") {
  const temporary_folder folder;
  folder.write("b", bytes_of({3, 4}));
  folder.write("a", bytes_of({1}));
  folder.write("c", "");
  CHECK(collect((fl::records<int>({folder / "?"}) | fl::prefetch(10)).finite()) == numbers{1, 3, 4});
  CHECK(collect((fl::records<int>({folder / "{b,c,a}"}) | fl::prefetch(10)).finite()) == numbers{3, 4, 1});
  CHECK_THROWS_AS(fl::records<int>({folder / "*.bin"}), std::runtime_error);
}

TEST_CASE("records yields structs at any offset in the file") {
  const temporary_folder folder;
  const position first{{1, 2, 3, 4, 5}, -7}, second{{9, 8, 7, 6, 5}, 300};
  std::string content(2 * sizeof(position), '\0');
  std::memcpy(content.data(), &first, sizeof first);
  std::memcpy(content.data() + sizeof first, &second, sizeof second);
  const auto p = fl::records<position>({folder.write("games", content)}) | fl::prefetch(2);
  CHECK(collect(p.finite()) == std::vector{first, second});
}

TEST_CASE("records with a size known at run time are bytes") {
  const temporary_folder folder;
  const auto p = fl::records({folder.write("abc", "abcdef")}, 3) | fl::prefetch(2);
  const std::vector<std::byte> abc{std::byte{'a'}, std::byte{'b'}, std::byte{'c'}},
      def{std::byte{'d'}, std::byte{'e'}, std::byte{'f'}};
  CHECK(collect(p.finite()) == std::vector{abc, def});
  CHECK_THROWS_AS(fl::records({folder / "abc"}, 0), std::invalid_argument);
}

TEST_CASE("the index of a record is its file's number and its position, the same in every epoch") {
  const temporary_folder folder;
  folder.write("0", bytes_of({10, 11}));
  folder.write("1", bytes_of({12, 13, 14}));
  const std::vector<std::pair<std::uint64_t, int>> expected{
      {0, 10}, {1, 11}, {second_file, 12}, {second_file + 1, 13}, {second_file + 2, 14}};
  for (const std::size_t workers : worker_counts) {
    const auto p = numbered(folder / "?", workers);
    CHECK(collect(p.finite()) == expected);
    const auto items = collect(p.infinite(), 50);
    REQUIRE(items.size() == 50);
    for (auto epoch = items.begin(); epoch != items.end(); epoch += 5) {
      std::vector sorted(epoch, epoch + 5);
      std::sort(sorted.begin(), sorted.end());
      CHECK(sorted == expected);
    }
  }
}

TEST_CASE("in each of several epochs records has a new order of files, by the seed") {
  const temporary_folder folder;
  for (int i = 10; i < 30; ++i) folder.write(std::to_string(i), bytes_of({i}));
  const auto p = fl::records<int>({folder / "??"}) | fl::prefetch(5);
  const auto items = collect(p.finite({.seed = 4, .epochs = 2}));
  REQUIRE(items.size() == 40);
  CHECK_FALSE(std::is_sorted(items.begin(), items.begin() + 20));
  CHECK_FALSE(std::equal(items.begin(), items.begin() + 20, items.begin() + 20));
  CHECK(collect(p.infinite({.seed = 4}), 40) == items);
  CHECK(collect(p.finite({.seed = 5, .epochs = 2})) != items);
}

TEST_CASE("an incomplete record at a file's end is a failure after the last complete one, and with skip the "
          "next file follows") {
  const temporary_folder folder;
  folder.write("0", bytes_of({1, 2}) + "xyz");
  folder.write("1", "x");
  folder.write("2", bytes_of({3}));
  const auto p = fl::records<int>({folder / "?"}) | fl::prefetch(10);
  const auto result = run_to_end(p.finite());
  CHECK(result.items == numbers{1, 2});
  REQUIRE(result.failed);
  CHECK(result.failed->stage == "records");
  CHECK(result.failed->message ==
        folder / "0: the last 3 bytes, at offset 8, are less than a record of 4 bytes");

  const auto skipping = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(skipping.items == numbers{1, 2, 3});
  REQUIRE(skipping.skipped.size() == 2);
  CHECK(skipping.skipped[1].message ==
        folder / "1: the last 1 bytes, at offset 0, are less than a record of 4 bytes");
}

TEST_CASE("a deleted file of records is a failure at its position, and with skip the next file follows") {
  const temporary_folder folder;
  for (int i = 0; i < 3; ++i) folder.write(std::to_string(i), bytes_of({i}));
  const auto p = fl::records<int>({folder / "?"}) | fl::prefetch(10);
  std::filesystem::remove(folder / "1");
  const auto result = run_to_end(p.finite());
  CHECK(result.items == numbers{0});
  REQUIRE(result.failed);
  CHECK(result.failed->message.find(folder / "1") != std::string::npos);
  CHECK(run_to_end(p.finite({.on_error = fl::on_error::skip})).items == numbers{0, 2});
}

TEST_CASE("an error names a record by its file and position") {
  const temporary_folder folder;
  folder.write("0", bytes_of({1, 2}));
  folder.write("1", bytes_of({3, 4}));
  const auto p = fl::records<int>({folder / "?"}) | fl::map(fl::test::refusing{{4}});
  const auto result = run_to_end(p.finite());
  CHECK(result.items == numbers{1, 2, 3});
  REQUIRE(result.failed);
  CHECK(result.failed->index == second_file + 1);
  CHECK(result.failed->origin == folder / "1: record 1");
}

TEST_CASE(
    "records without a file are an error at once, which names the pattern or says that the list is empty") {
  const temporary_folder folder;
  const std::string pattern = folder / "*.bin";
  CHECK(throws_saying<std::runtime_error>("no file matches `" + pattern, [&] { fl::records({pattern}, 4); }));
  CHECK(throws_saying<std::invalid_argument>("feedline::records: the list of files is empty",
                                             [&] { fl::records<int>({}); }));
}

TEST_CASE("a file of records that two patterns match is an error at once, which names it") {
  const temporary_folder folder;
  folder.write("a.bin", "abcd");
  CHECK(throws_saying<std::invalid_argument>("a.bin` is listed twice", [&] {
    fl::records({folder / "*.bin", folder / "a.bin"}, 4);
  }));
}

TEST_CASE("records of empty files yield nothing, and a loop over records can be left early") {
  const temporary_folder folder;
  CHECK(collect((fl::records<int>({folder.write("a", "")}) | fl::prefetch(2)).finite()).empty());
  const auto p = fl::records<int>({folder.write("b", bytes_of(numbers(3000, 5)))}) | fl::batch(10);
  CHECK(collect(p.infinite(), 3).size() == 3);
}

TEST_CASE("indexed records reject a pipe too, and read files whose reported size is 0") {
  const temporary_folder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const auto messages = [](const auto& p) {
    std::vector<std::string> all;
    for (const fl::failure& f : run_to_end(p.finite({.on_error = fl::on_error::skip})).skipped)
      all.push_back(f.message);
    return all;
  };
  for (const std::string& name : {pipe, std::string("/dev/zero")}) {
    const std::vector expected{name + ": is not a regular file"};
    CHECK(messages(fl::records({name}, 4) | fl::prefetch(1)) == expected);
    CHECK(messages(fl::records({name}, 4) | fl::global_shuffle() | fl::prefetch(1)) == expected);
  }
  const auto directory =
      run_to_end((fl::records({folder.path()}, 4) | fl::global_shuffle() | fl::prefetch(1)).finite());
  REQUIRE(directory.failed);
  CHECK(directory.failed->message.find("` is a directory: name the files in it") != std::string::npos);
  CHECK_FALSE(collect((fl::lines({"/proc/self/status"}) | fl::prefetch(1)).finite()).empty());
  const auto bytes = fl::records({"/proc/version"}, 1);
  const auto in_order = collect((bytes | fl::prefetch(1)).finite());
  CHECK_FALSE(in_order.empty());
  CHECK(collect((bytes | fl::global_shuffle() | fl::prefetch(1)).finite()).size() == in_order.size());
}

TEST_CASE("a run over records can't be resumed with a different record size") {
  const temporary_folder folder;
  const std::string path = folder.write("bytes", std::string(64, 'x'));
  auto loader = (fl::records({path}, 4) | fl::prefetch(2)).infinite();
  loader.next();
  const auto of_eight = fl::records({path}, 8) | fl::prefetch(2);
  CHECK_THROWS_AS(of_eight.infinite({.resume = loader.checkpoint()}), std::invalid_argument);
}

TEST_CASE("records and lines in a random order are announced while they aren't in memory") {
  const temporary_folder folder;
  constexpr std::size_t size = 64 << 20, record = 64; // some systems read 8 MiB around a page that is touched
  std::string text;
  while (text.size() < size) text += std::string(record - 1, 'r') + "\n";
  const std::string path = folder.write("a", text);
  if (!file_system_reads_ahead(path, size / 2)) return;
  const auto check = [&](auto source) {
    source.start_epoch({.seed = 3, .shuffled = true});
    fl::test::forget_file(path);
    REQUIRE(source.next());
    const auto distance = [&](std::uint64_t number) {
      const std::uint64_t first = source.place_of(0), place = source.place_of(number);
      return place > first ? place - first : first - place;
    };
    std::uint64_t farthest = 1; // of the samples that are announced
    for (std::uint64_t i = 2; i <= 64; ++i)
      if (distance(i) > distance(farthest)) farthest = i;
    CHECK(comes_into_memory(path, static_cast<std::size_t>(source.place_of(farthest)) * record));
  };
  check((fl::records({path}, record) | fl::global_shuffle()).source());
  check((fl::indexed_lines({path}) | fl::global_shuffle()).source());
}

TEST_CASE("while records reads a file, the system reads the beginning of the next one") {
  const temporary_folder folder;
  constexpr std::size_t size = 1 << 20;
  const auto first = folder.write("a", std::string(size, 'r')),
             second = folder.write("b", std::string(size, 'r'));
  if (!file_system_reads_ahead(second, size / 2)) return;
  auto loader = (fl::records({folder / "?"}, 8) | fl::prefetch(1)).finite();
  REQUIRE(loader.next());
  CHECK(comes_into_memory(second, size / 2));
}
