// SPDX-License-Identifier: MIT
#include <feedline/window/chunk_file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include <feedline/core/random.hpp>
#include <feedline/window/detail/file_cache.hpp>

#include "support/catch.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
namespace fs = std::filesystem;
using namespace feedline::test;
using strings = std::vector<std::string>;

namespace {

static_assert(std::is_nothrow_move_constructible_v<fl::chunk_file>);

std::string text_of(const fl::chunk_file& file, std::uint64_t i) {
  const auto bytes = file.read(i);
  CHECK(bytes.size() == file.bytes(i));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// "key=contents", or "! message"; keys and messages without the path.
strings contents(const fl::chunk_file& file) {
  strings all;
  for (std::uint64_t i = 0; i < file.size(); ++i) {
    try {
      all.push_back(file.key(i) + "=" + text_of(file, i));
    } catch (const std::runtime_error& error) {
      all.push_back(std::string("! ") + error.what());
    }
    if (const auto at = all.back().find(file.path()); at != std::string::npos)
      all.back().erase(at, file.path().size());
  }
  return all;
}

strings in_tar(const std::string& bytes, std::string* problem = nullptr) {
  static const temporary_folder folder;
  fl::chunk_file file(folder.write("s.tar", bytes));
  file.index();
  if (problem) *problem = file.problem();
  else CHECK(file.problem().empty());
  return contents(file);
}

} // namespace

TEST_CASE("A file is one chunk") {
  const temporary_folder folder;
  for (const std::string& text : {std::string(), std::string("text"), std::string(300'000, 'x')}) {
    fl::chunk_file file(folder.write("a", text));
    CHECK(file.size() == 0); // before it is indexed
    file.index();
    CHECK(file.size() == 1);
    CHECK(file.key(0) == folder / "a");
    CHECK(text_of(file, 0) == text);
    CHECK_THROWS_AS(file.read(1), std::out_of_range);
  }
}

TEST_CASE("A TAR file has one chunk per member, found by its headers") {
  const std::string large(100'000, 'x'), long_name(300, 'n');
  CHECK(in_tar(tar_writer()
                   .add("a.gz", "one")
                   .add("d/", "", '5')
                   .add("d/b.gz", "two")
                   .add("LICENSE", "free")
                   .add("d/LICENSE", "free")
                   .add("._a.gz", "fork")
                   .add("link", "", '2')
                   .add("empty", "")
                   .add("large", large)
                   .closed()) == strings{"/a.gz=one", "/d/b.gz=two", "/empty=", "/large=" + large});
  CHECK(in_tar(tar_writer(tar_dialect::gnu).long_name(long_name).add("short", "1").add("b", "2").open()) ==
        strings{"/" + long_name + "=1", "/b=2"});
  CHECK(in_tar(tar_writer()
                   .pax({{"comment", "global"}}, 'g')
                   .add("a", "1")
                   .pax({{"path", "own"}, {"size", "2"}})
                   .add("b", "22")
                   .add(tar_writer().header("c", "333").prefix("dir"), "333")
                   .closed()) == strings{"/a=1", "/own=22", "/dir/c=333"});
  CHECK(in_tar(std::string(1024, '\0')).empty());
}

TEST_CASE("An error in a TAR file is reported, and the members before it are chunks") {
  std::string problem;
  const std::string whole = tar_writer().add("a", "one").add("b", std::string(2000, 'b')).closed();
  CHECK(in_tar(whole.substr(0, 512 + 512 + 512 + 1000), &problem) == strings{"/a=one"});
  CHECK(problem.ends_with("s.tar: member `b` at offset 1024 is cut off: 2000 bytes announced, 1000 left"));
  std::string damaged = whole;
  damaged[1024 + 3] = 'x';
  CHECK(in_tar(damaged, &problem) == strings{"/a=one"});
  CHECK(problem.ends_with("s.tar: damaged header at offset 1024"));
  CHECK(in_tar("no TAR", &problem).empty());
  CHECK(problem.find("not a TAR file") != std::string::npos);
  CHECK(in_tar("", &problem).empty());
  CHECK(problem.ends_with("empty file: there is no header at offset 0"));
  CHECK(in_tar(tar_writer().add("a", "1").add("s", "", 'S').add("t", "", 'S').add("b", "2").closed(),
               &problem) == strings{"/a=1", "/b=2"});
  CHECK(problem.find("member `s` at offset 1024 is a sparse file") != std::string::npos);
  CHECK(problem.ends_with("(and 1 more)"));
  CHECK(in_tar(whole + whole, &problem).size() == 2);
  CHECK(problem.ends_with(
      "s.tar: the archive ends at offset 3584, and 4608 bytes follow that begin like another "
      "one, which isn't read"));
}

TEST_CASE("Sizes in headers are checked against the file") {
  std::string problem;
  CHECK(in_tar(tar_writer().add(tar_header_block().name("a").size_in_base_256(std::uint64_t{1} << 62)).open(),
               &problem)
            .empty());
  CHECK(problem.find("is cut off") != std::string::npos);
  // Names of 2 GB, extended headers one after another, and a sparse map without an end.
  CHECK(
      in_tar(
          tar_writer(tar_dialect::gnu).add(tar_header_block().type('L').size(std::uint64_t{2} << 30)).open(),
          &problem)
          .empty());
  CHECK(problem.find("cut off inside the extended header") != std::string::npos);
  tar_writer many;
  for (int i = 0; i < 3000; ++i) many.pax({{"path", "x"}});
  CHECK(in_tar(many.add("a", "1").closed(), &problem).empty());
  CHECK(!problem.empty());
  tar_writer map;
  map.add(tar_header_block().name("s").type('S').put(482, "\1"));
  for (int i = 0; i < 3000; ++i) map.raw(std::string(504, '\0') + '\1' + std::string(7, '\0'));
  CHECK(in_tar(map.closed(), &problem).empty());
  CHECK(!problem.empty());
}

TEST_CASE("With any bytes in an archive, indexing ends, and each member is read or an error") {
  fl::random_generator random(1);
  const std::string whole = tar_writer(tar_dialect::gnu)
                                .long_name("a long name")
                                .add("a", "one")
                                .pax({{"path", "p"}})
                                .add("b", std::string(700, 'b'))
                                .add("c", "three")
                                .closed();
  for (int i = 0; i < 500; ++i) {
    std::string bytes = whole.substr(0, random.below(4) == 0 ? random.below(whole.size()) : whole.size());
    for (std::uint64_t flips = random.below(4); flips > 0 && !bytes.empty(); --flips)
      bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
    std::string problem;
    const strings all = in_tar(bytes, &problem);
    REQUIRE(all.size() <= 4);
  }
}

TEST_CASE("A file that has changed since it was indexed is an error") {
  const temporary_folder folder;
  for (const std::string name : {"a", "a.tar"}) {
    const std::string before = tar_writer().add("x", "one").closed();
    const auto indexed = [&](std::shared_ptr<fl::detail::file_cache> cache = nullptr) {
      fl::chunk_file file(folder.write(name, before), std::move(cache), 1 << 20);
      file.index();
      CHECK(text_of(file, 0) == (name == "a" ? before : "one"));
      return file;
    };
    const auto longer = indexed();
    folder.write(name, before + "1");
    CHECK(throws_saying<std::runtime_error>("/" + name + " has changed since it was indexed",
                                            [&] { longer.read(0); }));
    const auto replaced = indexed();
    fs::rename(folder.write("new", before), folder / name);
    CHECK(throws_saying<std::runtime_error>("has changed", [&] { replaced.read(0); }));
    const auto removed = indexed();
    fs::remove(folder / name);
    CHECK(throws_saying<std::system_error>("/" + name + ": No such file or directory",
                                           [&] { removed.read(0); }));
    CHECK(removed.is_gone());
    CHECK(!longer.is_gone());
    CHECK(!replaced.is_gone());
    indexed();
    CHECK_THROWS_AS(removed.read(0), std::runtime_error); // a new file with that name
  }
  // A removed file that stays open can be read; a shortened one is cut off.
  const auto cache = std::make_shared<fl::detail::file_cache>(1);
  fl::chunk_file open(folder.write("o.tar", tar_writer().add("x", "one").add("y", "two").closed()), cache, 3);
  open.index();
  CHECK(text_of(open, 0) == "one");
  fs::resize_file(folder / "o.tar", 1538);
  CHECK(text_of(open, 0) == "one");
  CHECK(throws_saying<std::runtime_error>("o.tar/y is cut off: it had 3 bytes, but only 2 can be read",
                                          [&] { open.read(1); }));
  fs::remove(folder / "o.tar");
  CHECK(text_of(open, 0) == "one");
}

TEST_CASE("A file that isn't regular, or has a chunk that is too large, is an error") {
  const temporary_folder folder;
  REQUIRE(::mkfifo((folder / "pipe.tar").c_str(), 0600) == 0);
  for (const std::string& name : {folder / "pipe.tar", folder.path(), folder / "none"}) {
    fl::chunk_file file(name);
    CHECK_THROWS_AS(file.index(), std::runtime_error);
    CHECK(file.size() == 0);
  }
  fl::chunk_file large(folder.write("l", "12345"), nullptr, 4);
  large.index();
  CHECK(throws_saying<std::runtime_error>("/l has 5 bytes, more than the 4 that a chunk may have",
                                          [&] { large.read(0); }));
}

TEST_CASE("Indexing a TAR file can be stopped") {
  const temporary_folder folder;
  std::stop_source stop;
  stop.request_stop();
  fl::chunk_file file(folder.write("a.tar", tar_writer().add("x", "one").closed()));
  file.index(stop.get_token());
  CHECK(file.size() == 0);
}
