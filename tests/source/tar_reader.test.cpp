// SPDX-License-Identifier: MIT
#include <feedline/detail/tar_reader.hpp>

#include <cstring>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <feedline/core/random.hpp>

#include "support/catch.hpp"
#include "support/tar_writer.hpp"

namespace {

using feedline::detail::tar_member;
using feedline::detail::tar_reader;
using feedline::detail::tar_status;
using feedline::test::tar_dialect;
using feedline::test::tar_header_block;
using feedline::test::tar_writer;
using namespace std::string_literals;

using members = std::vector<std::pair<std::string, std::string>>;

struct listing {
  members whole; // name and contents
  members links; // with their targets
  std::vector<std::string> problems;
  tar_status last = tar_status::end; // how it ended: end, cut_off or damaged
};

listing list(std::string_view archive) {
  // A copy of exactly this size, so that a sanitizer sees each byte read beyond it.
  const std::vector<char> exact(archive.begin(), archive.end());
  feedline::detail::tar_memory memory(std::as_bytes(std::span(exact)));
  tar_reader reader(memory);
  listing found;
  tar_member member;
  for (tar_status status; (status = reader.next(member)) != tar_status::end;) {
    const std::string contents(reinterpret_cast<const char*>(member.bytes.data()), member.bytes.size());
    if (status == tar_status::member) found.whole.emplace_back(member.full_name(), contents);
    else if (status == tar_status::link) found.links.emplace_back(member.full_name(), member.target);
    else found.problems.push_back(reader.problem());
    if (status == tar_status::cut_off || status == tar_status::damaged) found.last = status;
  }
  return found;
}

// An archive with every kind of header that the reader knows.
std::string medley() {
  tar_writer tar;
  tar.add("a.txt", "one").add("d/", "", '5').add("b.txt", std::string(600, 'b'));
  tar.pax({{"comment", "x"}, {"path", "long/" + std::string(120, 'p')}, {"size", "2"}}).add("p", "pp");
  tar.long_name("gnu/" + std::string(120, 'g')).add("g", "ggg");
  tar.add("link", "", '2').add("label", "skip me", 'V').add(tar.header("h.txt", "h").prefix("pre/fix"), "h");
  tar.pax({{"comment", "global"}}, 'g').add("x", "last");
  return tar.closed();
}

} // namespace

TEST_CASE("the reader returns the regular files of v7, ustar and GNU archives in order") {
  for (const auto dialect : {tar_dialect::v7, tar_dialect::ustar, tar_dialect::gnu}) {
    tar_writer tar(dialect);
    tar.add("a.jpg", "first")
        .add("b", "")
        .add("c", std::string(512, 'c'), '\0')
        .add("d", std::string(513, 'd'), '7');
    const auto found = list(tar.closed());
    CHECK(found.whole ==
          members{{"a.jpg", "first"}, {"b", ""}, {"c", std::string(512, 'c')}, {"d", std::string(513, 'd')}});
    CHECK(found.problems.empty());
  }
}

TEST_CASE("octal sizes end at NUL, at a space or at the end of the field") {
  const std::string contents(5644, 'x');
  for (const auto& size :
       {"00000013014 "s, "00000013014\0"s, "      13014 "s, "13014\0\0\0\0\0\0\0"s, "000000013014"s}) {
    tar_writer tar;
    tar.add(tar.header("a").put(124, size), contents).add("b", "behind");
    CHECK(list(tar.closed()).whole == members{{"a", contents}, {"b", "behind"}});
  }
}

TEST_CASE("a size field that begins with NUL is 0, whatever follows") {
  tar_writer tar;
  tar.add(tar.header("a").put(124, "\0\0\0\0\0\0\0\00014 "s)).add("b", "behind");
  CHECK(list(tar.closed()).whole == members{{"a", ""}, {"b", "behind"}});
}

TEST_CASE("numbers in pax headers can begin with any number of zeros") {
  const std::string zeros(400, '0');
  tar_writer tar;
  tar.pax({{"size", zeros + "3"}, {"path", "a"}}).add(tar.header("short"), "abc");
  tar.pax({{"size", zeros}}).add(tar.header("b"));
  tar.add("x", "0000000000000000000000033 path=c\n", 'x').add("y", "behind");
  const auto found = list(tar.closed());
  CHECK(found.problems == std::vector<std::string>{});
  CHECK(found.whole == members{{"a", "abc"}, {"b", ""}, {"c", "behind"}});
}

TEST_CASE("sizes can be in base 256, but not negative or beyond the file") {
  tar_writer tar;
  tar.add(tar.header("a").size_in_base_256(700), std::string(700, 'x')).add("b", "behind");
  CHECK(list(tar.closed()).whole == members{{"a", std::string(700, 'x')}, {"b", "behind"}});

  for (const auto& size : {std::string(12, '\xff'), "\xbf"s + std::string(11, '\xff'), "00000000x14\0"s,
                           "-0000000014\0"s, "\xc0"s + std::string(10, '\0') + "\1"}) {
    tar_writer bad;
    bad.add(bad.header("a").put(124, size), "x");
    CHECK(list(bad.closed()).problems == std::vector{"no valid size in the header at offset 0"s});
  }
  tar_writer huge;
  huge.add(huge.header("a").size_in_base_256(std::uint64_t{1} << 62), "x");
  CHECK(list(huge.closed()).last == tar_status::cut_off);
}

TEST_CASE("checksums can be sums of unsigned or of signed bytes") {
  tar_writer tar;
  const auto header = tar.header("caf\xe9.txt", "x");
  REQUIRE(header.bytes(true) != header.bytes(false));
  for (const bool is_signed : {false, true}) {
    tar_writer archive;
    archive.raw(header.bytes(is_signed)).raw("x").pad();
    CHECK(list(archive.closed()).whole == members{{"caf\xe9.txt", "x"}});
  }
}

TEST_CASE("the prefix belongs to the name in ustar archives only") {
  tar_writer posix, gnu(tar_dialect::gnu);
  posix.add(posix.header("b/c.jpg", "x").prefix("dir/a"), "x");
  gnu.add(gnu.header("b/c.jpg", "x").prefix("13074064203"), "x");
  CHECK(list(posix.closed()).whole == members{{"dir/a/b/c.jpg", "x"}});
  CHECK(list(gnu.closed()).whole == members{{"b/c.jpg", "x"}});
  const std::string full_prefix(155, 'p'), full_name(100, 'n');
  tar_writer full;
  full.add(full.header(full_name, "x").prefix(full_prefix), "x");
  CHECK(list(full.closed()).whole == members{{full_prefix + "/" + full_name, "x"}});
}

TEST_CASE("GNU long names and pax headers apply to the next member") {
  const std::string name = "dir/" + std::string(300, 'n') + ".jpg";
  tar_writer tar;
  tar.long_name(name).long_name(std::string(200, 'k'), 'K').add("short", "1").add("next", "2");
  tar.pax({{"mtime", "1.5"}, {"path", "p\xc3\xa4x"}, {"size", "3"}, {"size", "2"}})
      .add(tar.header("short"), "34");
  tar.add("next", "5");
  tar.pax({{"comment", "for all"}, {"mtime", "1"}}, 'g').add("x", "6").pax({{"path", "one"}}).add("x", "7");
  const auto found = list(tar.closed());
  CHECK(found.problems.empty());
  CHECK(found.whole ==
        members{{name, "1"}, {"next", "2"}, {"p\xc3\xa4x", "34"}, {"next", "5"}, {"x", "6"}, {"one", "7"}});
}

TEST_CASE("a global header that gives all members one name or size is an error") {
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
           {"path", "all"}, {"size", "1"}, {"linkpath", "all"}, {"GNU.sparse.name", "all"}}) {
    tar_writer tar;
    tar.add("before", "1").pax({{"comment", "c"}, {key, value}}, 'g').add("x", "2");
    const auto found = list(tar.closed());
    CHECK(found.whole == members{{"before", "1"}});
    CHECK(found.problems ==
          std::vector{"a global header that gives all members one name or size at offset 1024"s});
  }
}

TEST_CASE("links have their targets, also long ones, and a hard link is named in an error") {
  const std::string far = std::string(200, 't') + ".jpg";
  tar_writer tar;
  tar.add("a", "1").add(tar.header("b", {}, '2').put(157, "a")).add(tar.header("c", {}, '1').put(157, "a"));
  tar.long_name(far, 'K').add(tar.header("d", {}, '2').put(157, "cut"));
  tar.pax({{"linkpath", far}, {"path", "e"}}).add(tar.header("cut", {}, '2').put(157, "cut"));
  tar.add("._f", "", '2').add("g/", "", '2').add("h", "2");
  const auto found = list(tar.closed());
  CHECK(found.whole == members{{"a", "1"}, {"h", "2"}});
  CHECK(found.links == members{{"b", "a"}, {"d", far}, {"e", far}});
  CHECK(found.problems ==
        std::vector{"member `c` at offset 1536 is a hard link to `a`, which is followed only in "
                    "uncompressed files that tar_samples reads: store it in full (tar --hard-dereference)"s});
}

TEST_CASE("malformed pax headers, and those without a member, are errors") {
  for (const auto& text :
       {"9999 path=a\n"s, "5 a=b"s, "path=a\n"s, "7 a b c\n"s, "0 a=b\n"s, "99999999999999999999999 a=b\n"s,
        "12 size=-10\n"s, "11 size=0x1\n"s, "2 "s, "8 size=\n"s}) {
    tar_writer tar;
    tar.add("before", "1").add("x", text, 'x').add("a", "2");
    const auto found = list(tar.closed());
    CHECK(found.whole == members{{"before", "1"}});
    const std::string line = text.substr(0, text.find('\n'));
    CHECK(found.problems ==
          std::vector{"malformed record `" + line + "` of the extended header at offset 1024"});
  }
  tar_writer alone;
  alone.pax({{"path", "a"}});
  CHECK(list(alone.open()).problems == std::vector{"an extended header without its member at offset 1024"s});
  CHECK(list(alone.closed()).last == tar_status::damaged);
  CHECK(list(alone.open().substr(0, 515)).problems ==
        std::vector{"cut off inside the extended header at offset 0"s});
}

TEST_CASE("directories, devices, AppleDouble files and unknown types are skipped with their contents") {
  tar_writer tar;
  for (const char type : {'3', '4', '5', '6'}) tar.add(tar.header("no contents", {}, type).size(1000));
  for (const char type : {'V', 'M', 'D', 'Z', 'a'}) tar.add("contents", "skip me", type);
  tar.add("._a.jpg", "fork")
      .add("dir/._a.jpg", "fork")
      .add("dir/", "skip me too")
      .add("dir._/a._b", "kept")
      .add("._dir/a", "fork");
  CHECK(list(tar.closed()).whole == members{{"dir._/a._b", "kept"}});
  CHECK(list(tar.closed()).problems.empty());
}

TEST_CASE("an archive ends at two blocks of zeros or at the end of its file") {
  tar_writer tar;
  tar.add("a", "1");
  const std::string zeros(512, '\0');
  for (const auto& end : {""s, zeros, zeros + zeros, zeros + zeros + tar.open(), zeros + zeros + "\n",
                          zeros + "\n" + zeros.substr(1)}) {
    const auto found = list(tar.open() + end);
    CHECK(found.whole == members{{"a", "1"}});
    CHECK(found.problems.empty());
  }
  CHECK(list(tar.open() + zeros + tar.open()).problems ==
        std::vector{"a single block of zeros before more members at offset 1024"s});
  CHECK(list(zeros + zeros).problems.empty());
  CHECK(list("").problems == std::vector{"empty file: there is no header at offset 0"s});
}

TEST_CASE("an archive that ends inside a block is cut off, even if its last member is complete") {
  tar_writer tar;
  tar.add("a", "1").add("skipped", "2", 'V');
  const std::string whole = tar.closed(), zeros(512, '\0');
  for (const std::size_t size : {513u, 600u, 1023u, 1537u, 2000u, 2047u}) {
    const auto found = list(whole.substr(0, size));
    CHECK(found.whole == members{{"a", "1"}});
    CHECK(found.last == tar_status::damaged);
    CHECK(found.problems ==
          std::vector{"cut off inside the last member's padding at offset " + std::to_string(size)});
  }
  for (const std::size_t size : {2049u, 2559u})
    CHECK(list(whole.substr(0, size)).problems ==
          std::vector{"cut off inside the zeros that end an archive at offset 2048"s});
  for (const auto& end : {zeros + "\n", zeros + zeros.substr(1)})
    CHECK(list(tar.open() + end).problems ==
          std::vector{"cut off inside the zeros that end an archive at offset 2048"s});
}

TEST_CASE("the members before a cut are read, wherever it is") {
  const std::string whole = medley();
  const auto all = list(whole).whole;
  REQUIRE(all.size() == 6);
  std::size_t given = 0;
  for (std::size_t size = 1; size < whole.size(); ++size) {
    const auto found = list(whole.substr(0, size));
    REQUIRE(found.whole.size() >= given);
    given = found.whole.size();
    REQUIRE(found.whole == members(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(given)));
    REQUIRE(found.problems.size() <= 1);
    // An archive that ends after a member is complete.
    if (size % 512 != 0) REQUIRE(found.problems.size() == 1);
    if (found.problems.empty()) REQUIRE(found.last == tar_status::end);
  }
  CHECK(given == all.size());

  tar_writer tar;
  tar.add("a.jpg", "x").add(tar.header("b.jpg").size(5644), std::string(1200, 'b'));
  const auto found = list(tar.open().substr(0, 1024 + 512 + 1200));
  CHECK(found.whole == members{{"a.jpg", "x"}});
  CHECK(found.problems ==
        std::vector{"member `b.jpg` at offset 1024 is cut off: 5644 bytes announced, 1200 left"s});
  CHECK(list(tar.open().substr(0, 1024 + 100)).problems ==
        std::vector{"cut off inside the header at offset 1024"s});
}

TEST_CASE("sparse files are reported by name, and the members after them are read") {
  tar_writer tar(tar_dialect::gnu);
  const std::string map_block = std::string(504, '\0') + "\1" + std::string(7, '\0'),
                    last_map_block(512, '\0');
  tar.add(tar.header("old", "data", 'S').put(482, "\1")).raw(map_block).raw(last_map_block).raw("data").pad();
  tar.add(tar.header("none", {}, 'S'));
  tar.pax({{"GNU.sparse.size", "9"}, {"GNU.sparse.numblocks", "1"}}).add("0.0", "data");
  tar.pax({{"GNU.sparse.major", "1"}, {"GNU.sparse.minor", "0"}, {"GNU.sparse.name", "dir/new"}})
      .add("GNUSparseFile.1/new", "data");
  tar.add("behind", "1");
  const auto found = list(tar.closed());
  CHECK(found.whole == members{{"behind", "1"}});
  REQUIRE(found.problems.size() == 4);
  CHECK(found.problems[0] ==
        "member `old` at offset 0 is a sparse file, which feedline doesn't read: store it in full");
  CHECK(found.problems[1].starts_with("member `none` at offset 2048 "));
  CHECK(found.problems[2].starts_with("member `0.0` at offset "));
  CHECK(found.problems[3].starts_with("member `dir/new` at offset "));
}

TEST_CASE("the error for a compressed file names the compression, if its first bytes show it") {
  using file = std::pair<std::string, std::string>;
  for (const auto& [bytes, kind] :
       {file{"\x1f\x8b\x08", "gzip"}, file{"BZh91AY&SY", "bzip2"},
        file{"\xfd"
             "7zXZ\0"s,
             "xz"},
        file{"\x28\xb5\x2f\xfd", "zstd"}, file{"\x04\x22\x4d\x18", "lz4"}, file{"\x1f\x9d", "compress"},
        file{"LZIP\1", "lzip"}, file{"\x89LZO\0"s, "lzop"}, file{"\xff\x06\0\0sNaPpY"s, "snappy"},
        file{"\x5d\0\0\x80"s, "lzma"}}) {
    for (const std::size_t more : {0u, 100u, 4000u}) {
      const auto found = list(bytes + std::string(more, '#'));
      CHECK(found.problems ==
            std::vector{"compressed: " + kind + " data begins at offset 0" +
                        feedline::detail::how_to_decompress(
                            kind + " data", "in order, without global_shuffle, with tar_options")});
    }
  }
  CHECK(list("<Project></Project>").problems ==
        std::vector{"not a TAR file: there is no valid header at offset 0"s});
  CHECK(list("\x89PNG\r\n\x1a\n" + std::string(600, 'x')).problems ==
        std::vector{"not a TAR file: there is no valid header at offset 0: it is a PNG image"s});
  tar_writer tar;
  tar.add("BZh is a name", "x");
  CHECK(list(tar.closed()).whole.size() == 1);
}

TEST_CASE("damaged headers end an archive, and names are escaped in messages") {
  tar_writer tar;
  tar.add("a", "1").add("b", "2");
  std::string bytes = tar.closed();
  bytes[1024 + 100] = 'x';
  CHECK(list(bytes).whole == members{{"a", "1"}});
  CHECK(list(bytes).problems == std::vector{"damaged header at offset 1024"s});

  CHECK(feedline::detail::in_backticks("a\nb\x7f") == "`a\\x0ab\\x7f`");
  CHECK(feedline::detail::in_backticks(std::string(1000, 'a')) == "`" + std::string(300, 'a') + "…`");
  const auto shown_with = [](const std::string& character) { // whose bytes lie around the 300th
    return feedline::detail::in_backticks(std::string(299, 'a') + character + "z");
  };
  CHECK(shown_with("é") == "`" + std::string(299, 'a') + "…`");
  CHECK(shown_with("€") == "`" + std::string(299, 'a') + "…`");
  CHECK(shown_with("\xf0\x9f\x99\x82") == "`" + std::string(299, 'a') + "…`");
  CHECK(shown_with("b") == "`" + std::string(299, 'a') + "b…`");
  CHECK(feedline::detail::in_backticks(std::string(400, '\x80')) == "`" + std::string(297, '\x80') + "…`");
}

TEST_CASE("random damage never causes an access out of bounds or an endless loop") {
  const std::string whole = medley();
  feedline::random_generator random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = whole;
    for (std::uint64_t changes = 1 + random.below(4); changes > 0; --changes) {
      const auto at = static_cast<std::size_t>(random.below(bytes.size()));
      bytes[at] = static_cast<char>(random());
    }
    // Most changes would only break a checksum: update the checksums.
    for (std::size_t at = 0; at + 512 <= bytes.size(); at += 512) {
      if (random.chance(0.5) || std::memcmp(whole.data() + at + 257, "ustar", 5) != 0) continue;
      std::int64_t sum = 8 * ' ';
      for (std::size_t i = 0; i < 512; ++i)
        sum += i / 8 == 148 / 8 && i >= 148 ? 0 : static_cast<unsigned char>(bytes[at + i]);
      for (std::size_t i = 152; i < 156; ++i) sum -= static_cast<unsigned char>(bytes[at + i]);
      bytes.replace(at + 148, 6, tar_header_block::octal(static_cast<std::uint64_t>(sum), 6));
    }
    REQUIRE(list(bytes).whole.size() <= 20);
  }
}
