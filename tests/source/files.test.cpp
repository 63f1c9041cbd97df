// SPDX-License-Identifier: MIT
#include <feedline/source/files.hpp>

#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using fl::test::collect;
using fl::test::run_to_end;
using fl::test::temporary_folder;
using fl::test::worker_counts;

namespace {

using names = std::vector<std::string>;

/// The names of the files that are found, without their folder's.
names found(const temporary_folder& folder, const std::string& pattern = "*",
            fl::files_options options = {}) {
  names all = collect((fl::files(folder.path(), pattern, options) | fl::prefetch(10)).finite());
  for (std::string& name : all) {
    REQUIRE(name.starts_with(folder.path() + "/"));
    name.erase(0, folder.path().size() + 1);
  }
  return all;
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

} // namespace

TEST_CASE("files gives the paths of a folder's files in the order of their bytes") {
  const temporary_folder folder;
  for (const char* name : {"b", "a", "B", "a10", "a9", "\xc3\xa4", "~"}) folder.write(name, name);
  CHECK(found(folder) == names{"B", "a", "a10", "a9", "b", "~", "\xc3\xa4"});
  const auto p = fl::files(folder.path(), "a*") | fl::prefetch(2);
  const auto order = collect(p.finite());
  CHECK(collect(p.infinite({.seed = 3}), 6) ==
        names{order[0], order[1], order[2], order[0], order[1], order[2]});
}

TEST_CASE("files matches patterns against names") {
  const temporary_folder folder;
  for (const char* name : {"x1.txt", "x2.txt", "y1.txt", "x1.bin", "X1.txt", ".hidden", ".txt"})
    folder.write(name, "");
  CHECK(found(folder, "*.txt") == names{"X1.txt", "x1.txt", "x2.txt", "y1.txt"});
  CHECK(found(folder, "x?.txt") == names{"x1.txt", "x2.txt"});
  CHECK(found(folder, "[xy]1.*") == names{"x1.bin", "x1.txt", "y1.txt"});
  CHECK(found(folder, "x1.bin") == names{"x1.bin"});
  CHECK(found(folder, ".*") == names{".hidden", ".txt"});
  CHECK(found(folder, "z*").empty());
}

TEST_CASE("files goes into the folders below on request only") {
  const temporary_folder folder;
  std::filesystem::create_directories(folder / "b/c");
  for (const char* name : {"a", "b/1", "b/c/2", "b.x"}) folder.write(name, "");
  CHECK(found(folder) == names{"a", "b.x"});
  CHECK(found(folder, "*", {.recursive = true}) == names{"a", "b.x", "b/1", "b/c/2"});
  CHECK(found(folder, "[0-9]", {.recursive = true}) == names{"b/1", "b/c/2"});
}

TEST_CASE("files gives regular files, also through links, and nothing else") {
  const temporary_folder folder, elsewhere;
  folder.write("file", "");
  std::filesystem::create_symlink(folder / "file", folder / "link");
  std::filesystem::create_symlink("nowhere", folder / "dangling");
  std::filesystem::create_directory_symlink(elsewhere.path(), folder / "linked_folder");
  elsewhere.write("far", "");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(found(folder, "*", {.recursive = true}) == names{"file", "link"});
}

TEST_CASE("files says which folder can't be listed") {
  const temporary_folder folder;
  const auto list = [&] { fl::files(folder / "missing"); };
  CHECK_THROWS_AS(list(), std::system_error);
  CHECK(fl::test::throws_saying<std::system_error>(folder / "missing", list));
  CHECK_THROWS_AS(fl::files(folder.write("file", "")), std::system_error);
}

TEST_CASE("files are read in order by any number of workers, and indices count them") {
  const temporary_folder folder;
  for (int i = 100; i < 150; ++i) folder.write(std::to_string(i), "content of " + std::to_string(i));
  for (const std::size_t workers : worker_counts) {
    const auto p = fl::files(folder.path()) |
                   fl::map([](const std::string& path,
                              fl::context& c) { return std::pair(c.index, text_of(fl::read_file(path))); },
                           fl::workers{workers});
    const auto items = collect(p.finite());
    REQUIRE(items.size() == 50);
    for (std::size_t i = 0; i < 50; ++i) {
      CHECK(items[i].first == i);
      CHECK(items[i].second == "content of " + std::to_string(100 + i));
    }
  }
}

TEST_CASE("a file that has vanished is a failure that names it, and with skip the rest arrives") {
  const temporary_folder folder;
  for (const char* name : {"a", "b", "c", "d"}) folder.write(name, name);
  const auto p =
      fl::files(folder.path()) | fl::map(fl::read_file, fl::workers{2}, fl::name{"read"}) | fl::map(text_of);
  std::filesystem::remove(folder / "c");
  const auto result = run_to_end(p.finite());
  CHECK(result.items == names{"a", "b"});
  REQUIRE(result.failed);
  CHECK(result.failed->stage == "map `read`");
  CHECK(result.failed->index == 2);
  CHECK(result.failed->origin == folder / "c");
  CHECK(result.failed->message.find(folder / "c") != std::string::npos);

  const auto skipping = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(skipping.items == names{"a", "b", "d"});
  CHECK(skipping.skipped_indices() == std::vector<std::uint64_t>{2});
}

TEST_CASE("read_file gives every byte of files of any size and says what it can't read") {
  const temporary_folder folder;
  for (const std::size_t size : {0u, 1u, 65'535u, 65'536u, 65'537u, 300'000u}) {
    std::string content(size, '\0');
    for (std::size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i * 7 % 251);
    CHECK((text_of(fl::read_file(folder.write("file", content))) == content));
  }
  CHECK(fl::test::throws_saying<std::system_error>(folder / "missing",
                                                   [&] { fl::read_file(folder / "missing"); }));
  CHECK(fl::test::throws_saying<std::system_error>(folder.path(), [&] { fl::read_file(folder.path()); }));
  CHECK_FALSE(fl::read_file("/proc/self/status").empty()); // its size is said to be 0
}

TEST_CASE("files of an empty folder give nothing") {
  const temporary_folder folder;
  CHECK(found(folder).empty());
}
