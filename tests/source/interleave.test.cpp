// SPDX-License-Identifier: MIT
#include <feedline/source/interleave.hpp>

#include <feedline/source/lines.hpp>
#include <feedline/source/range.hpp>
#include <feedline/source/records.hpp>
#include <feedline/source/tar.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>
#include <feedline/stage/shuffle.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/leave_and_resume.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

using texts = std::vector<std::string>;

static_assert(fl::detail::file_source<fl::tar_samples>);
static_assert(!fl::detail::file_source<fl::detail::range_source<std::vector<int>>>);

/// Files with these numbers of lines: "a0", "a1", … in the first one.
void write_files(const temporary_folder& folder, const std::vector<int>& lines) {
  for (std::size_t file = 0; file < lines.size(); ++file) {
    const std::string name(1, static_cast<char>('a' + file));
    std::string text;
    for (int i = 0; i < lines[file]; ++i) text += name + std::to_string(i) + "\n";
    folder.write(name, text);
  }
}

auto lines_of(const temporary_folder& folder, std::size_t at_once) {
  return fl::lines({folder / "?"}) | fl::interleave(at_once) | fl::prefetch(4);
}

/// An archive with this number of samples, one of which is damaged and can't be read.
std::string shard(std::string_view name, std::size_t samples, std::size_t damaged) {
  tar_writer tar;
  for (std::size_t i = 0; i < samples; ++i) {
    const std::string key = std::string(name) + std::to_string(i);
    tar.add(key + ".txt", key);
    if (i == damaged) tar.add(key + ".txt", "twice");
  }
  return tar.closed();
}

} // namespace

TEST_CASE("interleave needs at least one file") { CHECK_THROWS_AS(fl::interleave(0), std::invalid_argument); }

TEST_CASE(
    "interleave yields one sample of each file in turn, and replaces a file that ends by the next one") {
  const temporary_folder folder;
  write_files(folder, {3, 1, 0, 2, 4});
  CHECK(collect(lines_of(folder, 2).finite()) ==
        texts{"a0", "b0", "a1", "d0", "a2", "d1", "e0", "e1", "e2", "e3"});
  CHECK(collect(lines_of(folder, 100).finite()) ==
        texts{"a0", "b0", "d0", "e0", "a1", "d1", "e1", "a2", "e2", "e3"});
  CHECK(collect(lines_of(folder, 1).finite()) ==
        collect((fl::lines({folder / "?"}) | fl::prefetch(2)).finite()));
}

TEST_CASE("interleaved files can all be empty") {
  const temporary_folder folder;
  write_files(folder, {0, 0, 0});
  CHECK(collect(lines_of(folder, 2).finite()).empty());
}

TEST_CASE("indices and origins are those of the files, and each epoch opens the files in a different order") {
  const temporary_folder folder;
  write_files(folder, std::vector<int>(20, 3));
  const auto p =
      fl::lines({folder / "?"}) | fl::interleave(4) | fl::map([](const std::string& s, fl::context& c) {
        const auto file = static_cast<std::uint64_t>(s[0] - 'a');
        if (c.index != (file << 40 | static_cast<std::uint64_t>(std::stoi(s.substr(1)))))
          throw std::logic_error("wrong index");
        if (s == "c1") throw unlucky(1);
        return s;
      });
  const auto result = run_to_end(p.finite({.seed = 1, .epochs = 2, .on_error = fl::on_error::skip}));
  REQUIRE(result.skipped.size() == 2);
  CHECK(result.skipped[0].message == "unlucky 1");
  CHECK(result.skipped[0].origin == folder / "c: line 2");
  REQUIRE(result.items.size() == 118);
  const texts first(result.items.begin(), result.items.begin() + 59),
      second(result.items.begin() + 59, result.items.end());
  CHECK(first != second);
  CHECK(std::set(first.begin(), first.end()) == std::set(second.begin(), second.end()));
  CHECK(std::set(first.begin(), first.end()).size() == 59);
  CHECK(std::set{first[0][0], first[1][0], first[2][0], first[3][0]}.size() == 4);
}

TEST_CASE("a file that can't be read is a failure in its turn, and the others continue") {
  const temporary_folder folder;
  write_files(folder, {3, 3, 3, 3});
  const auto lines = lines_of(folder, 2);
  const auto records = fl::records({folder / "?"}, 3) | fl::interleave(2) | fl::prefetch(4);
  std::filesystem::remove(folder / "b");
  const auto result = run_to_end(lines.finite({.on_error = fl::on_error::skip}));
  CHECK(result.items == texts{"a0", "a1", "c0", "a2", "c1", "d0", "c2", "d1", "d2"});
  REQUIRE(result.skipped.size() == 1);
  CHECK(result.skipped[0].stage == "lines");
  const auto failed = run_to_end(lines.finite());
  CHECK(failed.items == texts{"a0"});
  CHECK(failed.failed);

  const auto of_records = run_to_end(records.finite({.on_error = fl::on_error::skip}));
  CHECK(of_records.items.size() == 9);
  CHECK(of_records.skipped.size() == 1);
}

TEST_CASE("a damaged sample of a shard is a failure in its turn") {
  const temporary_folder folder;
  folder.write("a.tar", shard("a", 3, 1));
  folder.write("b.tar", shard("b", 2, 9));
  folder.write("c.tar", "no archive");
  const auto p = fl::tar_samples(folder / "?.tar") | fl::interleave(3) |
                 fl::map([](const fl::tar_sample& s) { return std::string(s.text("txt")); });
  const auto result = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(result.items == texts{"a0", "b0", "b1", "a2"});
  CHECK(result.skipped.size() == 2);
}

TEST_CASE(
    "a run can't be resumed with a different number of files at once, but can be after files were added") {
  const temporary_folder folder;
  write_files(folder, {2, 2});
  auto loader = lines_of(folder, 4).finite({.epochs = 2});
  const std::string first = loader.next().value();
  const auto checkpoint = loader.checkpoint();
  auto expected = collect(std::move(loader));
  expected.resize(3); // only the first epoch
  CHECK_THROWS_AS(lines_of(folder, 3).finite({.epochs = 2, .resume = checkpoint}), std::invalid_argument);

  folder.write("c", "c0\n");
  const auto grown =
      collect(lines_of(folder, 4).finite({.epochs = 2, .resume = checkpoint, .allow_grown_data = true}));
  REQUIRE(grown.size() == 8);
  CHECK(texts(grown.begin(), grown.begin() + 3) == expected);
  CHECK(std::count(grown.begin() + 3, grown.end(), "c0") == 1);
}

TEST_CASE("Resumed: interleaved lines, with files that can't be read") {
  const temporary_folder folder;
  write_files(folder, {7, 0, 12, 1, 5, 20, 3, 3, 9});
  std::filesystem::create_directory(folder / "z"); // not a file
  leave_and_resume("interleaved lines", 40, [&](draw& d, const circumstances& c) {
    return fl::lines({folder / "?"}) | fl::interleave(d(1, 12)) | fl::shuffle({.capacity = d(1, 30)}) |
           fl::map([](std::string s) { return s + "!"; }, fl::workers{c.workers}) | fl::batch(d(1, 6));
  });
}

TEST_CASE("Resumed: interleaved records, with incomplete ones at the end") {
  const temporary_folder folder;
  write_files(folder, {7, 0, 12, 1, 5, 20, 3, 3, 9});
  std::filesystem::create_directory(folder / "z");
  leave_and_resume("interleaved records", 30, [&](draw& d, const circumstances& c) {
    return fl::records<std::uint16_t>({folder / "?"}) | fl::interleave(d(1, 12)) |
           fl::shuffle({.capacity = d(1, 30)}) |
           fl::map([](std::uint16_t n) { return n; }, fl::workers{c.workers}) | fl::batch(d(1, 6));
  });
}

TEST_CASE("Resumed: interleaved shards, with damaged ones") {
  const temporary_folder folder;
  for (std::size_t file = 0; file < 9; ++file)
    folder.write(std::to_string(file) + ".tar",
                 shard(std::string(1, static_cast<char>('a' + file)), 3 * file, 2 * file));
  folder.write("9.tar", "no archive");
  leave_and_resume("interleaved shards", 30, [&](draw& d, const circumstances& c) {
    return fl::tar_samples(folder / "?.tar") | fl::interleave(d(1, 12)) |
           fl::shuffle({.capacity = d(1, 30)}) |
           fl::map([](const fl::tar_sample& s) { return std::string(s.text("txt")); },
                   fl::workers{c.workers}) |
           fl::batch(d(1, 6));
  });
}
