// SPDX-License-Identifier: MIT
#include <feedline/gzip/tar_gz.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/gzip/gunzip.hpp>
#include <feedline/testing.hpp>

#include "support/catch.hpp"
#include "support/gzip_writer.hpp"
#include "support/leave_and_resume.hpp"
#include "support/memory_store.hpp"
#include "support/outcome.hpp"
#include "support/tar_contents.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/test_data.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;
using strings = std::vector<std::string>;

static_assert(fl::source<fl::tar_gz_samples>);
static_assert(std::is_same_v<fl::source_item_t<fl::tar_gz_samples>, fl::tar_sample>);
static_assert(!fl::indexed_source<fl::tar_gz_samples>, "a stream can't be shuffled as a whole");

namespace {

std::string shard(int number) {
  tar_writer tar;
  for (int i = 0; i < 5 + 3 * number; ++i) {
    tar.add(std::to_string(i) + ".txt", std::to_string(100 * number + i));
    if (number == 3 && i == 4) tar.add(std::to_string(i) + ".txt", "twice"); // a sample that fails
  }
  std::string bytes = gzip(tar.closed(), number % 3);
  if (number == 4) bytes.resize(bytes.size() / 2); // cut off
  return bytes;
}

temporary_folder& shards() {
  static temporary_folder folder;
  for (int i = 0; i < 6; ++i) folder.write("file-" + std::to_string(i), i == 2 ? std::string() : shard(i));
  return folder;
}

int to_number(const fl::tar_sample& s) { return std::stoi(std::string(s.text("txt"))); }

} // namespace

TEST_CASE("a compressed shard yields the same samples as the plain one") {
  tar_writer tar = pairs(20);
  tar.add("large.bin", lively_text(3'000'000)).add("large.cls", "");
  tar.add("dir/", "", '5').add("._x", "skipped").add("unknown", std::string(70'000, 'u'), 'V');
  tar.long_name(std::string(300, 'n') + ".txt").add("short", "long name");
  tar.pax({{"path", "by-pax.txt"}, {"size", "3"}}).add(tar.header("other").size(3), "abc");
  tar.pax({{"comment", "for all"}}, 'g').add("a", "1").add("between.bin", "s", 'S');
  tar.add("b", "2").add(tar.header("b.x", {}, '2').put(157, "b"));
  tar.add(tar_header_block().prefix("split").name("c.txt").size(1), "3");
  for (const std::string& archive : {tar.closed(), tar.open(), pairs(3).closed() + std::string(9000, '\0')}) {
    const strings plain = read_bytes<fl::tar_samples>(archive);
    CHECK(plain.size() >= 3);
    for (const int level : {0, 1, 9}) CHECK((read_bytes<fl::tar_gz_samples>(gzip(archive, level)) == plain));
    std::string members; // one archive in several gzip members, none of which ends at the end of a TAR member
    for (std::size_t at = 0; at < archive.size(); at += 7001) members += gzip(archive.substr(at, 7001));
    CHECK((read_bytes<fl::tar_gz_samples>(members) == plain));
    CHECK((read_bytes<fl::tar_gz_samples>(members + std::string(100, '\0')) == plain));
  }
}

TEST_CASE("An archive after the end of another in compressed data is noticed, or read with an option") {
  const std::string first = pairs(2).closed(), second = pairs(2, 2).closed();
  const std::string both = first + std::string(7168, '\0') + second, whole = gzip(first) + gzip(second);
  const strings one{"0:jpg=photo,cls=0", "1:jpg=photo,cls=1"};
  strings all = one, said;
  for (const char* text : {"2:jpg=photo,cls=2", "3:jpg=photo,cls=3"}) all.push_back(text);
  const auto notice = [&](const std::string& sentence) { said.push_back(sentence); };
  for (const std::string& file : {gzip(both), whole}) {
    CHECK(read_bytes<fl::tar_gz_samples>(file, fl::tar_gz_options{.on_notice = notice}) == one);
    REQUIRE(said.size() == 1);
    CHECK(
        said[0].find("the archive ends at offset 4096, and 5120 bytes follow that begin like another one") !=
        std::string::npos);
    said.clear();
    const fl::tar_gz_options reads_on{.concatenated = true, .on_notice = notice};
    CHECK(read_bytes<fl::tar_gz_samples>(file, reads_on) == all);
    CHECK(said.empty());
  }
  std::string damaged = gzip(both);
  damaged[damaged.size() - 5] ^= 1; // the checksum
  CHECK(read_bytes<fl::tar_gz_samples>(damaged, fl::tar_gz_options{.on_notice = notice}).size() == 3);
  CHECK(said.size() == 1);
}

TEST_CASE(
    "A sample with a hard link in a compressed shard is an error that names it, and the next one follows") {
  tar_writer tar = pairs(1);
  tar.add(tar.header("a.jpg", {}, '1').put(157, "0.jpg")).add("a.cls", "1").add("b.jpg", "2");
  const strings found = read_bytes<fl::tar_gz_samples>(gzip(tar.closed()));
  REQUIRE(found.size() == 3);
  CHECK(found[1] ==
        "! s.tar: member `a.jpg` at offset 2048 is a hard link to `0.jpg`, which is followed only in "
        "uncompressed files that tar_samples reads: store it in full (tar --hard-dereference)");
  CHECK(found[2] == "b:jpg=2");
}

TEST_CASE("errors of the archive are the same as for a plain one") {
  std::vector<std::string> archives{"", std::string(512, '\0'), "no archive", pairs(2).closed() + "x"};
  const std::string whole = pairs(3).closed();
  for (std::size_t size = 100; size < whole.size(); size += 211) archives.push_back(whole.substr(0, size));
  for (std::size_t at = 0; at < whole.size(); at += 97) {
    archives.push_back(whole);
    archives.back()[at] = static_cast<char>(archives.back()[at] ^ 0x11);
  }
  tar_writer sparse;
  sparse.add("0.txt", "a").add("1.txt", "b").add("1.bin", "c", 'S').add("2.txt", "d").add("2.txt", "e");
  archives.push_back(sparse.closed());
  for (const std::string& archive : archives)
    CHECK(read_bytes<fl::tar_gz_samples>(gzip(archive)) == read_bytes<fl::tar_samples>(archive));
}

TEST_CASE("compressed data that end early are an error with file and offset, after the samples before it") {
  const std::string whole = gzip(pairs(40).closed());
  const strings all = read_bytes<fl::tar_gz_samples>(whole);
  REQUIRE(all.size() == 40);
  std::size_t most = 0;
  for (std::size_t size = 1; size < whole.size(); ++size) {
    strings found = read_bytes<fl::tar_gz_samples>(whole.substr(0, size));
    REQUIRE(!found.empty());
    const std::string error = found.back();
    found.pop_back();
    INFO(error);
    REQUIRE(error.starts_with("! s.tar: "));
    REQUIRE(error.find("the gzip data are cut off: they end at offset " + std::to_string(size) +
                       ", inside a member") != std::string::npos);
    REQUIRE(found.size() <= 40);
    REQUIRE(std::equal(found.begin(), found.end(), all.begin()));
    REQUIRE(found.size() >= most); // more data yield more samples
    most = found.size();
  }
  CHECK(most == 40); // only the checksum is missing
  CHECK(read_bytes<fl::tar_gz_samples>(whole.substr(0, whole.size() - 3)).back() ==
        "! s.tar: the gzip data are cut off: they end at offset " + std::to_string(whole.size() - 3) +
            ", inside a member");
  const std::string stored = gzip(pairs(3).closed(), 0);
  CHECK(read_bytes<fl::tar_gz_samples>(stored.substr(0, 15 + 2048 + 512 + 3)) ==
        strings{all[0],
                "! s.tar: member `1.jpg` at offset 2048 is cut off: 5 bytes announced, 3 left: the gzip data "
                "are cut off: they end at offset 2578, inside a member"});
}

TEST_CASE("damage and wrong checksums are errors after the samples before them") {
  const std::string whole = gzip(pairs(3).closed(), 0);
  std::string bytes = whole;
  bytes[bytes.size() - 6] ^= 1; // in the checksum
  const strings all = read_bytes<fl::tar_gz_samples>(whole);
  strings found = read_bytes<fl::tar_gz_samples>(bytes);
  REQUIRE(found.size() == 4);
  CHECK(found[3].starts_with("! s.tar: the gzip data are damaged: the checksum at offset"));
  found.pop_back();
  CHECK(found == all);
  CHECK(read_bytes<fl::tar_gz_samples>(gzip(pairs(1).closed()) + "more")
            .back()
            .find("but other bytes follow") != std::string::npos);
  CHECK(read_bytes<fl::tar_gz_samples>(gzip(pairs(1).closed()) + "more").front() ==
        all[0]); // also for the shortest rest
  CHECK(read_bytes<fl::tar_gz_samples>(pairs(1).closed()) ==
        strings{"! s.tar: the data aren't gzip: there is no header at offset 0: it is a TAR archive"});
  CHECK(read_bytes<fl::tar_gz_samples>("") == strings{"! s.tar: the file is empty"});
  // The data end after a member, without the zeros that close an archive: members may be missing.
  const std::string open = gzip(pairs(2).open(), 0);
  found = read_bytes<fl::tar_gz_samples>(open.substr(0, open.size() - 8));
  REQUIRE(found.size() == 3);
  CHECK(found[1] == all[1]);
  CHECK(found[2].starts_with("! s.tar: cut off at offset 4096: the gzip data are cut off"));
}

TEST_CASE("samples stay valid when the source and its files are gone") {
  std::vector<fl::tar_sample> kept;
  std::optional<fl::tar_bytes> shared;
  {
    const temporary_folder folder;
    fl::tar_gz_samples source(folder.write("a.tar.gz", gzip(pairs(200).closed())));
    while (auto sample = source.next()) {
      if (kept.size() == 7) shared = sample->share("cls");
      kept.push_back(*sample);
    }
  }
  REQUIRE(kept.size() == 200);
  for (std::size_t i = 0; i < 200; ++i)
    CHECK(as_text(kept[i]) == std::to_string(i) + ":jpg=photo,cls=" + std::to_string(i));
  CHECK(kept[0].identity() != kept[1].identity());
  kept.clear();
  CHECK(text_of(*shared) == "7");
}

TEST_CASE("a sample that is too large is an error at its position, whatever its header says") {
  tar_writer tar;
  tar.add("0.txt", "a").add("1.txt", std::string(5000, 'x')).add("2.txt", "b");
  tar.add("3.a", std::string(1000, 'x'))
      .add("3.b", std::string(1000, 'x'))
      .add("3.c", std::string(1000, 'x'));
  tar.add("4.txt", "c");
  CHECK(read_bytes<fl::tar_gz_samples>(gzip(tar.closed()), fl::tar_gz_options{4000}) ==
        strings{"0:txt=a",
                "! s.tar: member `1.txt` at offset 1024 has 5000 bytes, more than its sample has room for",
                "2:txt=b", "! s.tar: sample `3` at offset 7680 is larger than the limit, max_sample_bytes",
                "4:txt=c"});
  tar_writer lie;
  lie.add("0.txt", "a").add(lie.header("1.txt").size_in_base_256(std::uint64_t{1} << 40), "x");
  CHECK(read_bytes<fl::tar_gz_samples>(gzip(lie.closed()))
            .at(1)
            .starts_with("! s.tar: member `1.txt` at offset 1024 is cut off: 1099511627776"));
  CHECK(read_bytes<fl::tar_gz_samples>(gzip(lie.closed()), fl::tar_gz_options{std::size_t{1} << 50}).size() ==
        2); // without allocating it
  tar_writer header;
  header.add("0.txt", "a").add(header.header("h", {}, 'x').size_in_base_256(std::uint64_t{1} << 40), "x");
  CHECK(read_bytes<fl::tar_gz_samples>(gzip(header.closed())) ==
        strings{"! s.tar: cut off inside the extended header at offset "
                "1024; sample `0` before it may have lost members "
                "there"});
  tar_writer whole;
  whole.add("0.txt", "a").add("1.txt", "b").add("h", std::string(5000, '\0'), 'x').add("2.txt", "c");
  CHECK(read_bytes<fl::tar_gz_samples>(gzip(whole.closed()), fl::tar_gz_options{4000})
            .back()
            .find("an extended header of 5000 bytes at offset 2048") != std::string::npos);
  CHECK(throws_saying<std::invalid_argument>("feedline::tar_gz_samples: max_sample_bytes is -1", [] {
    fl::tar_gz_samples("x", {.max_sample_bytes = static_cast<std::size_t>(-1)});
  }));
}

TEST_CASE("origins of samples are found by reading the shard again, in any order") {
  const temporary_folder folder;
  tar_writer tar = pairs(5);
  tar.add("5.txt", "", 'S').add("6.txt", "");
  const std::string a = folder.write("a.tar.gz", gzip(tar.closed()));
  std::vector<std::string> names{a};
  for (int i = 0; i < 6; ++i)
    names.push_back(folder.write("b" + std::to_string(i), gzip(pairs(2, 10 * i).closed())));
  const fl::tar_gz_samples source(names);
  for (const std::uint64_t place : {3u, 4u, 0u, 2u, 2u})
    CHECK(source.origin(place) == a + ": " + std::to_string(place) + ".jpg, .cls");
  CHECK(source.origin(5) == a + ": sample #5");
  CHECK(source.origin(6) == a + ": 6.txt");
  CHECK(source.origin(7) == a + ": sample #7");
  for (int i = 5; i >= 0; --i)
    CHECK(source.origin((std::uint64_t{1} + static_cast<std::uint64_t>(i)) << 40 | 1) ==
          names[static_cast<std::size_t>(i) + 1] + ": " + std::to_string(10 * i + 1) + ".jpg, .cls");
  folder.write("a.tar.gz", gzip(pairs(1, 70).closed()));
  CHECK(source.origin(0) == a + ": 70.jpg, .cls");
  std::filesystem::remove(a);
  CHECK(source.origin(0) == a + ": sample #0");
}

TEST_CASE(
    "hidden members, members that aren't neighbours and missing shards are treated as in plain shards") {
  const temporary_folder folder;
  tar_writer tar;
  tar.add("0.jpg", "p")
      .add(".DS_Store", "x")
      .add("0.cls", "0")
      .add("__MACOSX/._0.jpg", "m")
      .add("1.jpg", "q")
      .add("0.txt", "t");
  const std::string bytes = gzip(tar.closed());
  CHECK(read_bytes<fl::tar_gz_samples>(bytes) == strings{"0:jpg=p,cls=0", "1:jpg=q", "0:txt=t"});
  CHECK(read_bytes<fl::tar_gz_samples>(bytes, fl::tar_gz_options{.hidden = true}).size() == 6);
  const std::string path = folder.write("s.tar.gz", bytes);
  CHECK(fl::tar_gz_samples(path, {.hidden = true}).origin(1) == path + ": .DS_Store");
  strings said;
  fl::tar_gz_samples noticed(path,
                             {.on_notice = [&](const std::string& sentence) { said.push_back(sentence); }});
  CHECK(read_all(noticed).size() == 3);
  REQUIRE(said.size() == 1);
  CHECK(said[0].starts_with(path + ": the members of sample `0` aren't neighbours"));
  CHECK(noticed.bytes_held() > fl::tar_gz_samples(path).bytes_held());
  CHECK(fl::tar_gz_samples(path).fingerprint(1) != fl::tar_gz_samples(path, {.hidden = true}).fingerprint(1));
  const auto refuses = [&](const std::string& name, std::string_view words) {
    return fl::test::throws_saying<fl::pipeline_error>(
        words, [&] { (fl::tar_gz_samples(name) | fl::prefetch(1)).finite().next(); });
  };
  CHECK(refuses(folder / "{s,t}.tar.gz", "t.tar.gz: No such file"));
  CHECK(refuses(folder.path(), "such as `" + folder.path() + "/*.tar.gz`"));
}

TEST_CASE("tar_gz_samples keeps the promises of a source") {
  const auto folder = std::make_unique<temporary_folder>();
  for (int i = 0; i < 4; ++i) folder->write("file-" + std::to_string(i), gzip(pairs(3 + i, 10 * i).closed()));
  fl::testing::check_source(
      [&] { return fl::tar_gz_samples(*folder / "file-*", {.max_sample_bytes = 10'000}); },
      {.has_budget = true});
}

TEST_CASE("a copy of a tar_gz_samples in the middle of a shard continues independently") {
  const temporary_folder folder;
  fl::tar_gz_samples source(folder.write("s.tar", gzip(pairs(3).closed())));
  (void)source.next();
  auto copy = source;
  CHECK(read_all(source) == strings{"1:jpg=photo,cls=1", "2:jpg=photo,cls=2"});
  CHECK(read_all(copy) == strings{"1:jpg=photo,cls=1", "2:jpg=photo,cls=2"});
}

TEST_CASE("Compressed shards are resumed") {
  const std::string names = shards() / "file-*";
  leave_and_resume("compressed shards", 40, [&](draw& d, const circumstances& c) {
    const std::size_t capacity = d(1, 40);
    return fl::tar_gz_samples(names) | fl::map(to_number, fl::workers{c.workers}) |
           fl::shuffle({.capacity = capacity, .min_fill = d(0, capacity)}) | fl::batch(d(1, 7));
  });
}

TEST_CASE("failures keep their positions with any number of workers") {
  const watchdog guard("failures of compressed shards");
  std::vector<int> expected;
  std::vector<std::uint64_t> skipped;
  for (const std::size_t workers : {1u, 2u, 64u}) {
    const auto pipeline =
        fl::tar_gz_samples(shards() / "file-*") | fl::map(to_number, fl::workers{workers}) | fl::prefetch(4);
    const auto result = run_to_end(pipeline.finite({.on_error = fl::on_error::skip}));
    REQUIRE(!result.failed);
    CHECK(result.skipped.size() == 3); // the empty file, the duplicate field and the cut-off shard
    if (expected.empty()) expected = result.items, skipped = result.skipped_indices();
    CHECK(result.items == expected);
    CHECK(result.skipped_indices() == skipped);
    const auto stopped = run_to_end(pipeline.finite());
    REQUIRE(stopped.failed);
    CHECK(stopped.items ==
          std::vector<int>(expected.begin(), expected.begin() + 13)); // from the first two shards
  }
  CHECK(expected.size() > 5 + 8 + 13);
}

TEST_CASE("each compressed shard goes to one rank") {
  const temporary_folder folder;
  for (int i = 0; i < 4; ++i) folder.write("file-" + std::to_string(i), gzip(pairs(3, 10 * i).closed()));
  const auto pipeline = fl::tar_gz_samples(folder / "file-*") |
                        fl::map([](const fl::tar_sample& s) { return std::stoi(std::string(s.key())); }) |
                        fl::prefetch(1);
  std::vector<int> all;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto part = collect(
        pipeline.finite({.rank = {.number = rank, .world_size = 2, .remainder = fl::remainder::keep}}));
    CHECK(part.size() == 6);
    all.insert(all.end(), part.begin(), part.end());
  }
  std::sort(all.begin(), all.end());
  CHECK(all == std::vector<int>{0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32});
}

TEST_CASE(
    "tar_samples reads gzip data with their opener, in parts of an object, and plain shards beside them") {
  const std::string tar = pairs(9).closed();
  std::string members;
  for (std::size_t at = 0; at < tar.size(); at += 1001) members += gzip(tar.substr(at, 1001));
  const auto store = std::make_shared<memory_store>(64, 256);
  const std::string files[] = {gzip(tar), members + std::string(300, '\0'),
                               members + std::string(300, '\0') + "x", members.substr(0, members.size() - 9),
                               tar};
  for (const std::string& file : files) {
    store->put("mem://s.tar", file);
    fl::tar_samples object("mem://s.tar", {.remote = store, .decompress = {fl::gunzip_stream}});
    strings found = read_all(object);
    if (found.back().starts_with("! mem://")) found.back().erase(2, 6);
    CHECK(found == read_bytes<fl::tar_samples>(file, fl::tar_options{.decompress = {fl::gunzip_stream}}));
    CHECK(found.size() >= 9);
    if (&file != &files[4]) CHECK(found == read_bytes<fl::tar_gz_samples>(file));
  }
}

TEST_CASE("a stop ends the decompression of a huge member") {
  const temporary_folder folder;
  tar_writer tar;
  tar.add(tar.header("bomb", {}, 'V').size_in_base_256(std::uint64_t{1} << 60));
  std::string bytes = gzip(tar.open());
  const std::string zeros = gzip(std::string(8 << 20, '\0'), 9);
  for (int i = 0; i < 500; ++i) bytes += zeros; // 4 GB: takes seconds
  const std::string name = folder.write("bomb.tar.gz", bytes);
  fl::tar_gz_samples source(name);
  std::stop_source stop;
  stop.request_stop();
  source.start_epoch({.stop = stop.get_token()});
  CHECK(!source.next());
  {
    const watchdog guard("a stop in a bomb");
    auto loader = (fl::tar_gz_samples(name) | fl::prefetch(1)).finite();
    loader.stop();
    CHECK(!loader.next());
  }
}

TEST_CASE("a memory budget needs max_sample_bytes, and counts it") {
  const temporary_folder folder;
  const std::string name = folder.write("a.tar.gz", gzip(pairs(3).closed()));
  const auto length = [](const fl::tar_sample& s) { return s.size(); };
  const auto pipeline = [&](std::size_t largest) {
    return fl::tar_gz_samples(name, {.max_sample_bytes = largest}) | fl::map(length, fl::workers{2}) |
           fl::prefetch(2);
  };
  auto loader = pipeline(10'000).finite({.memory_budget = 1'000'000});
  CHECK(*loader.memory().bytes() <= 1'000'000);
  CHECK(*loader.memory().bytes() >= 10'000);
  while (loader.next()) continue;
  CHECK_THROWS(pipeline(std::size_t{1} << 30).finite({.memory_budget = 1'000'000}));
}

TEST_CASE("compressed archives of other programs are read like plain ones", "[shared]") {
  const auto folder = test_data("tar");
  if (!folder) return;
  std::size_t samples = 0, compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    if (entry.path().extension() == ".gz") {
      for (const std::string& text : read_bytes<fl::tar_gz_samples>(bytes)) samples += !text.starts_with("!");
    } else if (entry.path().extension() == ".tar" && bytes.size() < 20'000'000) {
      INFO(entry.path());
      const strings found = read_bytes<fl::tar_gz_samples>(gzip(bytes));
      if (std::ranges::any_of(
              found, [](const std::string& text) { return text.find(" is a hard link to ") != text.npos; }))
        continue; // which only a plain file can follow
      CHECK((found == read_bytes<fl::tar_samples>(bytes)));
      ++compared;
    }
  }
  CHECK(compared > 50);
  CHECK(samples > 5);
}
