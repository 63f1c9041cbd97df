// SPDX-License-Identifier: MIT
// TAR shards that are compressed with zstd.
#include <feedline/zstd/unzstd.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/testing.hpp>

#include "support/catch.hpp"
#include "support/leave_and_resume.hpp"
#include "support/memory_store.hpp"
#include "support/outcome.hpp"
#include "support/rounds.hpp"
#include "support/tar_contents.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"
#include "support/zstd_writer.hpp"

namespace fl = feedline;
using namespace feedline::test;
using strings = std::vector<std::string>;

namespace {

fl::tar_options unzstd(std::shared_ptr<fl::object_store> store = {},
                       std::size_t most = std::size_t{1} << 30) {
  return {.remote = std::move(store), .max_sample_bytes = most, .decompress = {fl::unzstd_stream}};
}

strings read(const std::string& bytes, const fl::tar_options& options = unzstd()) {
  return read_bytes<fl::tar_samples>(bytes, options);
}

/// The same from a store, in parts.
strings read_object(const std::string& bytes, const fl::tar_options& like = unzstd(),
                    std::size_t part = 1000) {
  const auto store = std::make_shared<memory_store>(part, 4 * part);
  store->put("mem://s.tar", bytes);
  fl::tar_options options = like;
  options.remote = store;
  fl::tar_samples source("mem://s.tar", options);
  strings found = read_all(source);
  for (std::string& text : found)
    if (text.starts_with("! mem://")) text.erase(2, 6);
  CHECK(source.next() == std::nullopt);
  return found;
}

/// Without the access by position that it refuses.
struct shards_in_order : fl::tar_samples {
  using fl::tar_samples::tar_samples;
  void indexed() = delete;
};

/// Pairs whose contents zstd can't make much smaller.
tar_writer noise(int count, std::uint64_t seed, std::size_t size = 700) {
  fl::random_generator random(seed);
  tar_writer tar;
  for (int i = 0; i < count; ++i) {
    std::string bytes(size, ' ');
    for (char& c : bytes) c = static_cast<char>('0' + random.below(64));
    tar.add(std::to_string(i) + ".bin", bytes).add(std::to_string(i) + ".cls", std::to_string(i));
  }
  return tar;
}

const std::function<std::string(const fl::tar_sample&)> key_of = [](const fl::tar_sample& s) {
  return std::string(s.key());
};

// One type of pipeline for all runs.
auto keys(const fl::file_patterns& shards, const fl::tar_options& options, std::size_t workers = 1) {
  return fl::tar_samples(shards, options) | fl::map(key_of, fl::workers{workers});
}

} // namespace

TEST_CASE("a shard of zstd data, as a file or an object, yields the samples of the plain one") {
  tar_writer tar = noise(20, 1);
  tar.add("large.bin", std::string(3'000'000, 'l')).add("large.cls", "");
  tar.add("dir/", "", '5').add("._x", "skipped").add("unknown", std::string(70'000, 'u'), 'V');
  tar.long_name(std::string(300, 'n') + ".txt").add("short", "long name");
  tar.pax({{"comment", "for all"}}, 'g').add("a", "1").add("between.bin", "s", 'S');
  for (const std::string& archive : {tar.closed(), tar.open(), pairs(3).closed() + std::string(9000, '\0')}) {
    const strings plain = read_bytes<fl::tar_samples>(archive);
    CHECK(plain.size() >= 3);
    std::string frames = skippable("abc"); // none of which ends at the end of a TAR member
    for (std::size_t at = 0; at < archive.size(); at += 700'001)
      frames += zstd(archive.substr(at, 700'001)) + zstd("") + skippable("x");
    for (const std::string& file : {zstd(archive), zstd(archive, 19), frames}) {
      CHECK((read(file) == plain));
      CHECK((read_object(file) == plain));
    }
    CHECK((read(archive) == plain)); // a plain shard among them
    CHECK((read_object(archive) == plain));
  }
}

TEST_CASE(
    "Archives one after another in zstd data are noticed, or read with an option, as a file and an object") {
  const temporary_folder folder;
  const auto store = std::make_shared<memory_store>(600, 3000);
  const std::string bytes = zstd(pairs(2).closed()) + zstd(pairs(1, 2).closed());
  store->put("mem://s", bytes);
  for (const std::string& name : {folder.write("s", bytes), std::string("mem://s")}) {
    strings said;
    fl::tar_options options = unzstd(store);
    options.on_notice = [&](const std::string& sentence) { said.push_back(sentence); };
    fl::tar_samples source(name, options);
    CHECK(read_all(source).size() == 2);
    REQUIRE(said.size() == 1);
    CHECK(said[0].starts_with(name + ": the archive ends at offset 4096, and 3072 bytes follow that begin "));
    options.concatenated = true;
    fl::tar_samples both(name, options);
    CHECK(read_all(both).size() == 3);
    CHECK(said.size() == 1);
  }
}

TEST_CASE("errors of an archive in zstd data are those of the plain one") {
  strings archives{"", std::string(512, '\0'), "no archive", pairs(2).closed() + "x"};
  const std::string whole = pairs(3).closed();
  for (std::size_t size = 100; size < whole.size(); size += 411) archives.push_back(whole.substr(0, size));
  for (std::size_t at = 0; at < whole.size(); at += 197) {
    archives.push_back(whole);
    archives.back()[at] = static_cast<char>(archives.back()[at] ^ 0x11);
  }
  archives.push_back(tar_writer()
                         .add("0.txt", "a")
                         .add("1.txt", "b")
                         .add("1.bin", "c", 'S')
                         .add("2.txt", "d")
                         .add("2.txt", "e")
                         .closed());
  for (const std::string& archive : archives)
    CHECK(read(zstd(archive)) == read_bytes<fl::tar_samples>(archive));
}

TEST_CASE("zstd data that are cut off or damaged are an error after the samples before it") {
  const std::string archive = noise(40, 2).closed(), file = zstd(archive);
  const strings all = read_bytes<fl::tar_samples>(archive);
  for (std::size_t size = 5; size < file.size(); size += 1 + file.size() / 50) {
    const std::string cut = file.substr(0, size);
    strings found = read(cut);
    CHECK((read_object(cut) == found));
    INFO(found.back());
    CHECK(found.back().find("the zstd data are cut off: they end at offset " + std::to_string(size) +
                            ", inside a frame") != std::string::npos);
    found.pop_back();
    CHECK(std::equal(found.begin(), found.end(), all.begin()));
  }
  std::string wrong_sum = file;
  wrong_sum.back() ^= 1;
  strings found = read(wrong_sum);
  CHECK(found.back().starts_with(
      "! s.tar: the zstd data are damaged (Restored data doesn't match checksum) in the "
      "frame at offset 0, before offset "));
  CHECK((read_object(wrong_sum) == found));
  found.pop_back();
  CHECK(found == all);
  CHECK(read(zstd(pairs(1).closed()) + "more").back().find("but other data follow") != std::string::npos);
  CHECK(read(with_window(zstd(pairs(2).closed()), 27)).size() == 2);
  CHECK(
      read(with_window(zstd(pairs(2).closed()), 28)) ==
      strings{
          "! s.tar: the frame at offset 0 has a window of more than 128 MiB: compress the file again with a "
          "smaller --long"});
  CHECK(read(skippable("only")) == strings{"! s.tar: empty file: there is no header at offset 0"});
  CHECK(read("") == strings{"! s.tar: empty file: there is no header at offset 0"});
}

TEST_CASE("zstd data without the opener are an error that names it, and so is access by position") {
  const std::string file = zstd(pairs(3).closed());
  const strings error{
      "! s.tar: compressed: zstd data begins at offset 0: read it in order, without global_shuffle, with "
      "tar_options::decompress = {feedline::unzstd_stream}, which is in feedline/zstd.hpp of the "
      "component feedline::zstd"};
  CHECK(read(file, {}) == error);
  CHECK(read_object(file, {}) == error);
  const temporary_folder folder;
  const std::string name = folder.write("s.tar", file);
  CHECK(throws_saying<fl::pipeline_error>(
      "feedline::tar_samples: compressed shards can only be read in order",
      [&] { (fl::tar_samples(name, unzstd()) | fl::global_shuffle()).infinite().next(); }));
}

TEST_CASE("a sample that is too large is an error at its position, whatever its header says") {
  tar_writer tar;
  tar.add("0.txt", "a").add("1.txt", std::string(5000, 'x')).add("2.txt", "b");
  const strings expected{
      "0:txt=a", "! s.tar: member `1.txt` at offset 1024 has 5000 bytes, more than its sample has room for",
      "2:txt=b"};
  CHECK(read(zstd(tar.closed()), unzstd({}, 4000)) == expected);
  CHECK(read_object(zstd(tar.closed()), unzstd({}, 4000)) == expected);
  tar_writer lie;
  lie.add("0.txt", "a").add(lie.header("1.txt").size_in_base_256(std::uint64_t{1} << 40), "x");
  CHECK(read(zstd(lie.closed()), unzstd({}, std::size_t{1} << 50)).size() == 2); // without allocating it
  tar_writer skipped;
  skipped.add("0.txt", "a").add(skipped.header("._1", {}, 'V').size_in_base_256(std::uint64_t{1} << 60));
  CHECK(read(zstd(skipped.open())).back().find("is cut off") != std::string::npos);
}

TEST_CASE("origins are found by reading a compressed shard again, in any order") {
  const temporary_folder folder;
  const std::string a = folder.write("a", zstd(pairs(5).add("5.txt", "", 'S').add("6.txt", "").closed())),
                    b = folder.write("b", pairs(5, 10).closed());
  const fl::tar_samples source({a, b}, unzstd());
  for (const std::uint64_t place : {3u, 4u, 0u, 2u, 2u}) {
    CHECK(source.origin(place) == a + ": " + std::to_string(place) + ".jpg, .cls");
    CHECK(source.origin(std::uint64_t{1} << 40 | place) ==
          b + ": " + std::to_string(10 + place) + ".jpg, .cls");
  }
  CHECK(source.origin(5) == a + ": sample #5");
  CHECK(source.origin(6) == a + ": 6.txt");
  CHECK(source.origin(7) == a + ": sample #7");
  folder.write("a", zstd(pairs(1, 70).closed()));
  CHECK(source.origin(0) == a + ": 70.jpg, .cls");
}

TEST_CASE("tar_samples of zstd data keeps the promises of a source") {
  const auto folder = std::make_shared<temporary_folder>();
  const auto store = std::make_shared<memory_store>(700, 3000);
  for (int i = 0; i < 4; ++i) {
    const std::string bytes = noise(2 + i, static_cast<std::uint64_t>(i)).closed(),
                      name = "file-" + std::to_string(i);
    folder->write(name, i == 2 ? bytes : zstd(bytes));
    store->put("mem://" + name, i == 1 ? bytes : zstd(bytes));
  }
  const auto text = [](const fl::tar_sample& s) { return as_text(s); };
  for (const std::string& names : {*folder / "file-*", std::string("mem://file-{0..3}")})
    fl::testing::check_source([&] { return shards_in_order(names, unzstd(store, 10'000)); },
                              {.places = 8, .has_budget = true}, text);
  CHECK(store->reads_open() == 0);
}

TEST_CASE("Resumed: shards of zstd data, files and objects, good and damaged") {
  const temporary_folder folder;
  const auto store = std::make_shared<memory_store>(600, 3000);
  strings names;
  for (std::uint64_t i = 0; i < 6; ++i) {
    std::string bytes = noise(4, i)
                            .pax({{"comment", "c"}}, 'g')
                            .add("twice.a", "")
                            .add("twice.a", "")
                            .add("z.a", "")
                            .closed();
    if (i != 1 && i != 4) bytes = zstd(bytes);
    if (i == 2) bytes.resize(bytes.size() / 2);
    names.push_back(i < 3 ? folder.write(std::to_string(i), bytes) : "mem://" + std::to_string(i));
    if (i >= 3) store->put(names.back(), bytes);
  }
  leave_and_resume("compressed shards", 20,
                   [&](draw&, const circumstances& c) { return keys(names, unzstd(store), c.workers); });
}

TEST_CASE(
    "an outage within a compressed object ends the run, and another reason is the reason of its damage") {
  const std::string file = zstd(noise(40, 3).closed());
  const auto store = std::make_shared<memory_store>(2000, 4000);
  store->put("mem://a", file);
  store->put("mem://b", zstd(pairs(2, 90).closed()));
  const auto fails = [&](auto error) {
    store->before([=](const memory_store::request& wanted, const std::stop_token&) {
      if (wanted.offset >= 8000) throw error;
    });
    return run_to_end(keys({"mem://a", "mem://b"}, unzstd(store)).finite({.on_error = fl::on_error::skip}));
  };
  const auto damaged = fails(fl::object_error("mem://a: moved"));
  CHECK(damaged.items.back() == "91");
  REQUIRE(damaged.skipped.size() == 1);
  CHECK(damaged.skipped[0].message.find("moved") != std::string::npos);
  CHECK(damaged.skipped[0].message.find("cut off: ") == std::string::npos);
  const auto out = fails(fl::outage_error("mem://a: no answer"));
  REQUIRE(out.failed);
  CHECK(out.failed->message.find("no answer") != std::string::npos);
  CHECK(out.items.size() + 1 >= damaged.items.size() - 2);
}

TEST_CASE("a stop ends the decompression of a huge member") {
  const temporary_folder folder;
  tar_writer tar;
  tar.add(tar.header("bomb", {}, 'V').size_in_base_256(std::uint64_t{1} << 60));
  std::string bytes = zstd(tar.open());
  const std::string zeros = zstd(std::string(8 << 20, '\0'), 1);
  for (int i = 0; i < 4000; ++i) bytes += zeros; // 32 GB: takes seconds
  const std::string name = folder.write("bomb.tar.zst", bytes);
  fl::tar_samples source(name, unzstd());
  std::stop_source stop;
  stop.request_stop();
  source.start_epoch({.stop = stop.get_token()});
  CHECK(!source.next());
  const watchdog guard("a stop in a bomb");
  auto loader = keys(name, unzstd()).finite();
  loader.stop();
  CHECK(!loader.next());
}

TEST_CASE("a memory plan counts the window of zstd, and copies continue independently") {
  const temporary_folder folder;
  const std::string name = folder.write("a", zstd(pairs(3).closed()));
  fl::tar_samples source(name, unzstd({}, 10'000));
  CHECK(source.bytes_held() > std::size_t{256} << 20);
  CHECK(source.max_item_bytes() == sizeof(fl::tar_sample) + 10'000);
  CHECK(fl::tar_samples(name).bytes_held() == 0);
  static_cast<void>(source.next());
  auto copy = source;
  CHECK(read_all(source) == strings{"1:jpg=photo,cls=1", "2:jpg=photo,cls=2"});
  CHECK(read_all(copy) == strings{"1:jpg=photo,cls=1", "2:jpg=photo,cls=2"});
}

TEST_CASE("changed shards of zstd data yield samples or errors, and end") {
  const std::string file = zstd(noise(6, 9, 200).closed()),
                    half = zstd(noise(3, 8, 100).open()) + skippable("abc") + file;
  fl::random_generator random(5);
  for (int left = rounds(400, 100); left > 0; --left) {
    std::string bytes = random.chance(0.5) ? file : half;
    for (std::uint64_t changes = 1 + random.below(3); changes > 0; --changes) {
      const std::size_t at = random.below(bytes.size() + 1), size = random.below(9);
      if (random.chance(0.4) && !bytes.empty())
        bytes[at % bytes.size()] ^= static_cast<char>(1 << random.below(8));
      else if (random.chance(0.5)) bytes.erase(at, size);
      else bytes.insert(at, size, '\xff');
    }
    const auto without_offset = [](strings found) { // up to which zstd read depends on the parts
      for (std::string& text : found) text.resize(std::min(text.size(), text.find(", before offset")));
      return found;
    };
    CHECK(without_offset(read(bytes)) ==
          without_offset(read_object(bytes, unzstd(), 600 + random.below(500))));
  }
}
