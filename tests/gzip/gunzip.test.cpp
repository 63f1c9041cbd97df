// SPDX-License-Identifier: MIT
#include <feedline/gzip/gunzip.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include <sys/resource.h>

#include <feedline/feedline.hpp>
#include <feedline/testing.hpp>
#include <feedline/window.hpp>

#include "support/catch.hpp"
#include "support/gzip_writer.hpp"
#include "support/outcome.hpp"
#include "support/sanitizers.hpp"
#include "support/tar_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/test_data.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

static_assert(std::is_base_of_v<std::runtime_error, fl::gzip_error>);
static_assert(!std::is_invocable_v<decltype(fl::gunzip), std::string>, "a file's name isn't its contents");

namespace {

/// The contents of the file, or "! " and the error.
std::string read(std::string_view file, fl::gunzip_options options = {}) {
  try {
    return text_of(fl::gunzip(bytes_of(file), options));
  } catch (const fl::gzip_error& error) {
    return std::string("! ") + error.what();
  }
}

bool refuses(std::string_view reason, std::string_view file) {
  const std::string text = read(file);
  INFO(text);
  CHECK(text.starts_with("! feedline::gunzip: "));
  CHECK(text.find(reason) != std::string::npos);
  return text.starts_with("! ") && text.find(reason) != std::string::npos;
}

std::string number(std::uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i, value >>= 8) bytes += static_cast<char>(value & 0xff);
  return bytes;
}

std::string zeros(std::size_t count) { return std::string(count, '\0'); }

} // namespace

TEST_CASE("gunzip restores compressed contents of every size and level") {
  for (const std::size_t size : {0u, 1u, 1000u, 65'535u, 65'536u, 65'537u, 300'000u, 5'000'000u})
    for (const int level : {0, 1, 12}) {
      const std::string text = lively_text(size);
      CHECK((read(gzip(text, level)) == text));
      CHECK((read(gzip(zeros(size), level)) == zeros(size))); // a thousand times smaller
    }
}

TEST_CASE("gunzip returns the contents of concatenated members one after another") {
  std::string file, text;
  for (std::size_t i = 0; i < 300; ++i) {
    file += gzip(lively_text(i * 37), static_cast<int>(i % 13));
    text += lively_text(i * 37);
  }
  CHECK((read(file) == text));
  CHECK((read(gzip("") + gzip("") + gzip("a") + gzip("")) == "a"));
  CHECK((read(gzip(zeros(1'000'000)) + gzip("a")) == zeros(1'000'000) + "a"));
  CHECK((read(gzip("a") + gzip(zeros(3'000'000)) + gzip("b")) == "a" + zeros(3'000'000) + "b"));
}

TEST_CASE("headers can have extra fields, a name, a comment and a checksum") {
  const std::string plain = gzip("contents");
  const std::string extra = std::string("\x05\0", 2) + "12345", name = std::string("game.txt\0", 9),
                    comment = std::string("hello\0", 6);
  std::string head = plain.substr(0, 3) + '\x1c' + plain.substr(4, 6) + extra + name + comment;
  CHECK(read(head + plain.substr(10)) == "contents");
  head[3] = '\x1e';
  const std::uint32_t sum = ::libdeflate_crc32(0, head.data(), head.size());
  CHECK(read(head + number(sum).substr(0, 2) + plain.substr(10)) == "contents");
  for (std::size_t cut = 0; cut < head.size(); ++cut) CHECK(read(head.substr(0, cut)).starts_with("! "));
  CHECK(refuses("unknown header flags set", plain.substr(0, 3) + '\x20' + plain.substr(4)));
  CHECK(refuses("unknown compression method", plain.substr(0, 2) + '\x07' + plain.substr(3)));
}

TEST_CASE("only zeros can follow the last member") {
  const std::string file = gzip("a");
  const std::string end = std::to_string(file.size());
  CHECK(read(file + zeros(1)) == "a");
  CHECK(read(file + zeros(1000)) == "a");
  CHECK(read(file + file + zeros(7)) == "aa");
  CHECK(
      refuses("the gzip data end at offset " + end + ", but more than zeros follow", file + zeros(3) + file));
  CHECK(
      refuses("the gzip data end at offset " + end + ", but more than zeros follow", file + zeros(3) + "x"));
  CHECK(refuses("the gzip data end at offset " + end + ", but other bytes follow",
                file + "garbage and more of it"));
  CHECK(refuses("cut off", file + "\x1f"));
  CHECK(refuses("cut off", file + file.substr(0, 12)));
}

TEST_CASE("the error for data in another format says that they aren't gzip") {
  CHECK(refuses("the file is empty", ""));
  CHECK(refuses("the data aren't gzip: there is no header at offset 0",
                "plain text, long enough for a header"));
  CHECK(refuses("the data aren't gzip", zeros(100)));
  CHECK(refuses("there is no header at offset 0: it is zstd data", "\x28\xb5\x2f\xfd, long enough"));
  CHECK(refuses("cut off: they end at offset 1,", "\x1f"));
}

TEST_CASE("a file that is cut off is an error that says where") {
  const std::string text = lively_text(3000), file = gzip(text);
  for (std::size_t size = 1; size < file.size(); ++size)
    REQUIRE(
        refuses("the gzip data are cut off: they end at offset " + std::to_string(size) + ", inside a member",
                file.substr(0, size)));
  CHECK((read(file) == text));
}

TEST_CASE("a changed byte in the compressed data is an error") {
  const std::string text = lively_text(500), file = gzip(text);
  for (std::size_t i = 10; i < file.size();
       ++i) { // some bytes before 10 don't matter, such as the header's time
    std::string damaged = file;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    if (i == file.size() - 9 && read(damaged) == text) continue; // unused bits of the last byte
    REQUIRE(read(damaged).starts_with("! feedline::gunzip: the gzip data"));
  }
}

TEST_CASE("a wrong checksum and a wrong size are errors") {
  const std::string text = lively_text(3000), file = gzip(text), body = file.substr(0, file.size() - 8),
                    sum = file.substr(file.size() - 8, 4);
  CHECK(refuses("the checksum at offset", body + number(12345) + number(3000)));
  for (const std::uint32_t size : {0u, 1u, 2999u, 3001u, 0x7fffffffu, 0xffffffffu})
    CHECK(refuses("the size at offset", body + sum + number(size)));
  CHECK((read(body + sum + number(3000)) == text));
  // Of several members, only the last one's size is read in advance.
  CHECK(refuses("the size at offset", body + sum + number(0xffffffff) + file));
}

TEST_CASE("memory is allocated for the actual contents, not for the announced size") {
  const std::string file = gzip("a"), lie = file.substr(0, file.size() - 4) + number(0xffffffff);
  ::rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_AS, &before) == 0);
  ::rlimit tight = before;
  std::ifstream statm("/proc/self/statm");
  std::size_t pages = 0;
  statm >> pages;
  tight.rlim_cur = pages * 4096 + (64u << 20);
  fl::gunzip_decoder decoder;
  std::string text;
#if !FEEDLINE_TEST_ASAN && !FEEDLINE_TEST_TSAN
  REQUIRE(::setrlimit(RLIMIT_AS, &tight) == 0);
#endif
  try {
    decoder.decode(bytes_of(lie), {.max_output_bytes = std::size_t{1} << 40});
  } catch (const std::exception& error) { // std::bad_alloc, if it allocated the announced size
    text = error.what();
  }
  ::setrlimit(RLIMIT_AS, &before);
  CHECK(text.find("the size at offset") != std::string::npos);
}

TEST_CASE("contents that are one byte larger than the limit are an error") {
  for (const std::size_t size : {0u, 1u, 10u, 70'000u, 4'000'000u})
    for (const std::string& text : {lively_text(size), zeros(size)}) {
      const std::string file = gzip(text);
      CHECK((read(file, {.max_output_bytes = size}) == text));
      CHECK((read(file, {.max_output_bytes = size + 1}) == text));
      if (size == 0) continue;
      CHECK(read(file, {.max_output_bytes = size - 1}) ==
            "! feedline::gunzip: the contents are larger than " + std::to_string(size - 1) +
                " bytes: raise max_output_bytes if that is expected");
      CHECK(read(file + file, {.max_output_bytes = 2 * size - 1}).starts_with("! "));
      CHECK((read(file + file, {.max_output_bytes = 2 * size}) == text + text));
    }
  // A member states its size only modulo 2^32: the limit applies before that size is checked.
  CHECK(throws_saying<fl::gzip_error>("larger than 1000 bytes", [] {
    fl::gunzip_decoder().decode(bytes_of(gzip(zeros(100'000'000))), {.max_output_bytes = 1000});
  }));
  CHECK(throws_saying<std::invalid_argument>("feedline::gunzip: the max_output_bytes is -1", [] {
    fl::gunzip_decoder().decode(bytes_of(gzip("a")), {.max_output_bytes = static_cast<std::size_t>(-1)});
  }));
}

TEST_CASE("a decoder continues after an error, and returns nothing of the file before") {
  fl::gunzip_decoder decoder;
  const std::string large = lively_text(200'000), small = "small";
  const std::string files[] = {gzip(large), gzip(small), gzip(large).substr(0, 50'000), gzip(""), "no gzip"};
  const std::optional<std::string> expected[] = {large, small, {}, "", {}};
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < 5; ++j)
      for (const std::size_t k : {i, j}) {
        if (!expected[k]) CHECK_THROWS_AS(decoder.decode(bytes_of(files[k])), fl::gzip_error);
        else CHECK((text_of(decoder.decode(bytes_of(files[k]))) == *expected[k]));
      }
  fl::gunzip_decoder copy = decoder, moved = std::move(decoder);
  CHECK(text_of(copy.decode(bytes_of(files[1]))) == small);
  CHECK(text_of(moved.decode(bytes_of(files[1]))) == small);
  CHECK(text_of(decoder.decode(bytes_of(files[1]))) == small); // NOLINT: it starts without memory
  copy = moved;
  CHECK(text_of(copy.decode(bytes_of(files[1]))) == small);
}

TEST_CASE("lines of compressed files are those of the plain ones") {
  const fl::test::temporary_folder folder;
  std::string long_lines;
  for (std::size_t i = 0; i < 300; ++i)
    long_lines += lively_text(i * 7, static_cast<unsigned>(i)) + (i % 3 == 0 ? "\r\n" : "\n");
  const std::vector<std::string> texts{"a\nb\n",
                                       "",
                                       "\n\n",
                                       "no end",
                                       "\xef\xbb\xbf"
                                       "a,b\r\n1,2\r\n",
                                       "\xef\xbb\xbf",
                                       long_lines,
                                       long_lines + "end\r"};
  const auto lines_of = [](const std::string& path, fl::lines_options options = {}) {
    return collect((fl::lines(path, options) | fl::prefetch(10)).finite());
  };
  for (const std::string& text : texts) {
    const auto plain = lines_of(folder.write("plain", text));
    CHECK(lines_of(folder.write("packed", gzip(text)), {.decompress = {fl::gunzip_stream}}) == plain);
    CHECK(lines_of(folder / "plain", {.decompress = {fl::gunzip_stream}}) == plain);
    if (text.size() > 1) // two members are one text
      CHECK(lines_of(folder.write("packed", gzip(text.substr(0, 1)) + gzip(text.substr(1))),
                     {.decompress = {fl::gunzip_stream}}) == plain);
  }
  CHECK(lines_of(folder.write("packed", gzip(texts[4])), {.decompress = {fl::gunzip_stream}}).front() ==
        "a,b");
}

TEST_CASE("lines of compressed files are resumed, keep the promises of a source, and have their order") {
  const fl::test::temporary_folder folder;
  for (int file = 0; file < 3; ++file) {
    std::string text = "\xef\xbb\xbf";
    for (int i = 0; i < 40; ++i)
      text +=
          std::to_string(file) + "-" + std::to_string(i) + lively_text(static_cast<std::size_t>(i)) + "\n";
    folder.write("plain-" + std::to_string(file), text);
    folder.write("zip-" + std::to_string(file), file == 1 ? text : gzip(text)); // a mixture
  }
  const fl::lines_options options{.decompress = {fl::gunzip_stream}};
  const auto plain = fl::lines(folder / "plain-*"), packed = fl::lines(folder / "zip-*", options);
  const auto pipeline = [](const auto& lines) {
    return lines | fl::shuffle({.capacity = 10}) | fl::batch(7, fl::as_list);
  };
  auto expected = pipeline(plain).infinite({.seed = 3});
  auto loader = pipeline(packed).infinite({.seed = 3});
  for (int i = 0; i < 40; ++i) {
    const auto batch = expected.next().value().values();
    REQUIRE(loader.next().value().values() == batch);
    if (i % 5 == 0) loader = pipeline(packed).infinite({.resume = loader.checkpoint()});
  }
  fl::testing::check_source([&] { return fl::lines(folder / "zip-*", options); });
}

TEST_CASE("a compressed line that is too long, damage and a cut fail at their position, and the next file "
          "follows") {
  const fl::test::temporary_folder folder;
  const fl::lines_options options{.max_line_bytes = 1000, .decompress = {fl::gunzip_stream}};
  const auto run = [&](const std::string& bytes) {
    folder.write("a", bytes);
    folder.write("b", gzip("last\n"));
    return fl::test::run_to_end(
        (fl::lines(folder / "?", options) | fl::prefetch(2)).finite({.on_error = fl::on_error::skip}));
  };
  using texts = std::vector<std::string>;
  const auto long_line =
      run(gzip("one\n" + std::string(300'000, 'x') + "\r\n" + std::string(1000, 'y') + "\r\ntwo"));
  CHECK(long_line.items == texts{"one", std::string(1000, 'y'), "two", "last"});
  REQUIRE(long_line.skipped.size() == 1);
  CHECK(long_line.skipped[0].message.find("a: line 2 has 300000 bytes, more than") != std::string::npos);
  const std::string whole = gzip("one\ntwo\nthree\n", 0);
  const auto cut = run(whole.substr(0, whole.size() - 11)); // within `three`
  CHECK(cut.items == texts{"one", "two", "last"});
  REQUIRE(cut.skipped.size() == 1);
  CHECK(cut.skipped[0].message.find("a: the gzip data are cut off") != std::string::npos);
  std::string damaged = whole;
  damaged[damaged.size() - 6] ^= 1; // in the checksum
  const auto wrong = run(damaged);
  CHECK(wrong.items == texts{"one", "two", "three", "last"});
  REQUIRE(wrong.skipped.size() == 1);
  CHECK(wrong.skipped[0].message.find("checksum") != std::string::npos);
}

TEST_CASE("a decoder rejects its own output as input") {
  const std::string twice = gzip(gzip("inside"));
  fl::gunzip_decoder outer, inner;
  const auto once = outer.decode(bytes_of(twice));
  CHECK(throws_saying<std::invalid_argument>("is a view of this decoder's memory",
                                             [&] { outer.decode(once); }));
  CHECK(throws_saying<std::invalid_argument>("is a view of this decoder's memory",
                                             [&] { fl::gunzip(fl::gunzip_view(bytes_of(twice))); }));
  CHECK(text_of(inner.decode(once)) == "inside");
  CHECK(text_of(fl::gunzip(fl::gunzip(bytes_of(twice)))) == "inside");
}

TEST_CASE("workers decompress files and members of shards, and only a bad one fails") {
  const watchdog guard("gunzip in pipelines");
  const temporary_folder folder;
  tar_writer tar;
  std::vector<std::string> expected;
  for (std::size_t i = 0; i < 60; ++i) {
    const std::string name = std::to_string(100 + i), text = lively_text(i * 500, static_cast<unsigned>(i));
    const std::string file = i == 17 ? gzip(text).substr(0, 30) : gzip(text);
    folder.write(name + ".gz", file);
    tar.add(name + ".gz", file);
    if (i != 17) expected.push_back(text);
  }
  const std::string shard = folder.write("shard.tar", tar.closed());
  const auto as_text = [](const std::vector<std::byte>& bytes) { return text_of(bytes); };
  const auto run = [&](const auto& pipeline) {
    std::vector<std::string> found;
    auto loader = pipeline.finite({.on_error = fl::on_error::skip});
    while (auto text = loader.next()) found.push_back(*text);
    REQUIRE(loader.failures().size() == 1);
    CHECK(loader.failures()[0].index == 17);
    CHECK(loader.failures()[0].message.find("the gzip data are cut off: they end at offset 30") !=
          std::string::npos);
    CHECK(loader.failures()[0].origin.find("117") != std::string::npos);
    CHECK((found == expected));
  };
  for (const std::size_t workers : {1u, 2u, 64u}) {
    const fl::workers n{workers};
    run(fl::files(folder.path(), "*.gz") | fl::map(fl::read_file, n) | fl::map(fl::gunzip, n) |
        fl::map(as_text));
    run(fl::tar_samples(shard) |
        fl::map([](const fl::tar_sample& s) { return text_of(fl::gunzip_view(s["gz"])); }, n) |
        fl::prefetch(4));
    run(fl::files(folder.path(), "*.gz") | fl::map(fl::read_file) |
        fl::map(fl::per_worker([] {
                  return [unzip = fl::gunzip_decoder()](const std::vector<std::byte>& file) mutable {
                    return text_of(unzip.decode(file));
                  };
                }),
                n));
  }
}

TEST_CASE("workers decompress chunks of a pool, and only a bad one fails") {
  const watchdog guard("a pool of gzip files");
  const temporary_folder folder;
  folder.write("1.tar", tar_writer().add("x.gz", gzip("one")).add("y.gz", gzip("two")).closed());
  folder.write("2.gz", gzip("three"));
  folder.write("3.gz", gzip("four").substr(0, 15));
  fl::sliding_window_pool pool(fl::watch_directory(folder.path()), {.window = 4});
  for (const std::size_t workers : {1u, 2u, 64u}) {
    auto run =
        (pool | fl::map(fl::read_chunk, fl::workers{workers}) | fl::map(fl::gunzip, fl::workers{workers}))
            .finite({.on_error = fl::on_error::skip});
    std::set<std::string> all;
    while (const auto contents = run.next()) CHECK(all.insert(text_of(*contents)).second);
    CHECK(all == std::set<std::string>{"one", "two", "three"});
    REQUIRE(run.failures().size() == 1);
    CHECK(run.failures()[0].message.find("cut off") != std::string::npos);
  }
}

TEST_CASE("each thread has its own decoder") {
  const std::string a = lively_text(100'000, 1), b = lively_text(90'000, 2), zip_a = gzip(a), zip_b = gzip(b);
  std::vector<std::jthread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i)
        wrong += (t + i) % 2 == 0 ? text_of(fl::gunzip_view(bytes_of(zip_a))) != a
                                  : text_of(fl::gunzip_view(bytes_of(zip_b))) != b;
    });
  threads.clear();
  CHECK(wrong == 0);
}

TEST_CASE("training games contain only complete records", "[shared]") {
  const auto folder = test_data("leela");
  if (!folder) return;
  std::size_t games = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(*folder)) {
    if (entry.path().extension() != ".gz") continue;
    const auto game = fl::gunzip(fl::read_file(entry.path().string()));
    REQUIRE(game.size() > 4);
    const std::size_t record = game[0] == std::byte{7} ? 8396 : 8356;
    CHECK(game.size() % record == 0);
    CHECK(!game.empty());
    ++games;
  }
  CHECK(games > 10);
}
