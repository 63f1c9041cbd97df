// SPDX-License-Identifier: MIT
#include <feedline/zstd/unzstd.hpp>

#include <feedline/source/lines.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/testing/check_source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/leave_and_resume.hpp"
#include "support/outcome.hpp"
#include "support/rounds.hpp"
#include "support/temporary_folder.hpp"
#include "support/zstd_writer.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

using texts = std::vector<std::string>;

std::string some_text(std::size_t lines, std::uint64_t seed) {
  fl::random_generator random(seed);
  std::string text;
  for (std::size_t i = 0; i < lines; ++i) {
    for (std::uint64_t left = random.below(60); left > 0; --left)
      text += static_cast<char>('a' + random.below(20));
    text += random.chance(0.2) ? "\r\n" : "\n";
  }
  return text;
}

struct opened {
  std::string text, problem;
};

/// The text of a stream that is read in steps of that size.
opened open(std::string_view file, std::size_t step = 1000, std::size_t piece = ~std::size_t{0}) {
  constexpr std::size_t most = 1 << 24;
  std::size_t at = 0;
  std::string memory; // of one piece, so that sanitizers notice a use of the last one
  const auto next = [&] {
    memory = std::string(file.substr(at, piece));
    memory.shrink_to_fit();
    at += memory.size();
    return std::as_bytes(std::span(memory));
  };
  const auto stream = fl::unzstd_stream.open(next(), next);
  opened all;
  std::size_t got = step;
  while (got == step && all.text.size() < most) {
    const std::size_t size = all.text.size();
    all.text.resize(size + step);
    got = stream->read(reinterpret_cast<std::byte*>(all.text.data() + size), step);
    all.text.resize(size + got);
    REQUIRE(stream->offset() <= file.size());
  }
  all.problem = stream->problem();
  return all;
}

using change = std::function<std::string(std::string, fl::context&)>;

// One type of pipeline for all runs.
auto lines_of(const fl::file_patterns& files, fl::lines_options options = {.decompress = {fl::unzstd_stream}},
              std::size_t workers = 1) {
  const change numbered = [](std::string line, fl::context& c) {
    return std::to_string(c.index) + " " + line;
  };
  return fl::lines(files, std::move(options)) | fl::map(numbered, fl::workers{workers});
}

} // namespace

TEST_CASE("a stream has the contents of all frames, and leaves out skippable ones") {
  const std::string text = some_text(20'000, 1), half = text.substr(0, text.size() / 2);
  for (const std::size_t step : {std::size_t{1} << 20, std::size_t{1000}, std::size_t{777}}) {
    CHECK((open(zstd(text), step).text == text));
    CHECK(open(zstd(half) + skippable("abc") + zstd("") + zstd(text.substr(half.size())), step).text == text);
    CHECK(open(skippable("") + zstd(text, 19) + skippable(std::string(100'000, 'x')), step).text == text);
  }
  for (const std::string& file : {zstd(""), skippable("x"), zstd("") + zstd("")}) {
    CHECK(open(file).text.empty());
    CHECK(open(file).problem.empty());
  }
  CHECK(open(zstd(std::string(5'000'000, 'x'))).text == std::string(5'000'000, 'x'));
  CHECK(open(zstd("exact"), 5).text == "exact");
  const std::string two = zstd("one\n") + zstd("two\n") + skippable("x"); // pieces may end with a frame
  for (std::size_t piece = 1; piece <= two.size(); ++piece)
    CHECK(open(two, 1000, piece).text == "one\ntwo\n");
}

TEST_CASE("data that are cut off, damaged, or followed by others are a problem after the text before it") {
  const std::string text = some_text(20'000, 2), file = zstd(text);
  const opened cut = open(file.substr(0, file.size() / 2));
  CHECK(text.starts_with(cut.text));
  CHECK(cut.text.size() > text.size() / 3);
  CHECK(cut.problem == "the zstd data are cut off: they end at offset " + std::to_string(file.size() / 2) +
                           ", inside a frame");
  CHECK(open(file.substr(0, file.size() - 1)).problem.find("cut off") != std::string::npos);
  CHECK(open(file.substr(0, 3)).problem.find("cut off") != std::string::npos);
  CHECK(open(skippable("abcdef").substr(0, 10)).problem.find("cut off") != std::string::npos);
  CHECK(open("").problem == "the file is empty");
  const opened followed = open(file + "more");
  CHECK((followed.text == text));
  CHECK(followed.problem ==
        "the zstd data end at offset " + std::to_string(file.size()) + ", but other data follow");
  std::string damaged = file;
  damaged.back() ^= 1; // in the checksum
  for (const std::size_t step : {std::size_t{1} << 20, std::size_t{1000}})
    CHECK((open(damaged, step).text == text));
  CHECK(open(zstd("one") + damaged)
            .problem.find("the zstd data are damaged (Restored data doesn't match checksum) in the "
                          "frame at offset " +
                          std::to_string(zstd("one").size())) == 0);
}

TEST_CASE("damage of a block's header is a problem after all blocks before it") {
  constexpr std::string_view frame("\x28\xb5\x2f\xfd\0\x58", 6), block("\x28\0\0first", 8),
      damaged = "\xff\xff\xff";
  const std::string file = std::string(frame).append(block).append(damaged);
  for (const std::size_t step : {1000u, 5u, 1u})
    for (const std::size_t piece : {1000u, 1u}) CHECK(open(file, step, piece).text == "first");
  CHECK(open(file).problem.starts_with("the zstd data are damaged"));
}

TEST_CASE("a window of 128 MiB is read, and a larger one refused") {
  const std::string text = some_text(1000, 3);
  CHECK(open(with_window(zstd(text), 27)).text == text);
  const opened refused = open(zstd("one\n") + with_window(zstd(text), 28));
  CHECK(refused.text == "one\n");
  CHECK(refused.problem ==
        "the frame at offset " + std::to_string(zstd("one\n").size()) +
            " has a window of more than 128 MiB: compress the file again with a smaller --long");
}

TEST_CASE("changed files give problems or texts, and end") {
  const std::string text = some_text(300, 4);
  const std::string files[] = {zstd(text), with_window(zstd(text, 19), 16),
                               zstd(text.substr(0, 99)) + skippable("abc") + zstd(text)};
  fl::random_generator random(5);
  int problems = 0;
  const int count = rounds(4000, 1000);
  for (int i = 0; i < count; ++i) {
    std::string file = files[random.below(3)];
    for (std::uint64_t changes = 1 + random.below(4); changes > 0; --changes) {
      const std::size_t at = random.below(file.size() + 1), size = random.below(9);
      switch (random.below(5)) {
      case 0: // flips a bit, often in a header
        if (!file.empty())
          file[(random.chance(0.5) ? at : at % 16) % file.size()] ^= static_cast<char>(1 << random.below(8));
        break;
      case 1:
        file.erase(at, size);
        break;
      case 2:
        file.insert(at, size, random.chance(0.5) ? '\0' : '\xff');
        break;
      case 3:
        file.resize(at);
        break;
      default:
        file += file.substr(at, 100);
      }
    }
    const opened whole = open(file, 1 + random.below(5000)),
                 pieces = open(file, 1 + random.below(5000), 1 + random.below(200));
    REQUIRE(whole.problem.substr(0, whole.problem.find(", before offset")) ==
            pieces.problem.substr(0, pieces.problem.find(", before offset")));
    REQUIRE((whole.text == pieces.text));
    problems += !whole.problem.empty();
  }
  CHECK(problems > count / 2);
}

TEST_CASE("lines of zstd files are those of their text, with the same indices, also beside plain files") {
  const temporary_folder folder;
  const std::string text = "\xef\xbb\xbf" + some_text(500, 6);
  folder.write("plain-0", text);
  folder.write("plain-1", text);
  folder.write("packed-0", zstd(text));
  folder.write("packed-1", text);
  CHECK(collect(lines_of(folder / "packed-?").finite()) == collect(lines_of(folder / "plain-?").finite()));
  const auto result = run_to_end(lines_of(folder / "packed-?", {}).finite({.on_error = fl::on_error::skip}));
  CHECK(result.items.size() == 500);
  REQUIRE(result.skipped.size() == 1);
  CHECK(result.skipped[0].message.find("packed-0 is zstd data: read it with lines and "
                                       "lines_options::decompress = {feedline::unzstd_stream}, which is in "
                                       "feedline/zstd.hpp of the component feedline::zstd") !=
        std::string::npos);
}

TEST_CASE("damage of a zstd file is a failure after the lines before it, and the next file follows") {
  const temporary_folder folder;
  const std::string file = zstd("one\ntwo\nthree\n");
  folder.write("a", zstd("one\n") + file.substr(0, file.size() - 6));
  folder.write("b", file);
  const auto result = run_to_end(lines_of(folder / "?").finite({.on_error = fl::on_error::skip}));
  CHECK(result.items.back().ends_with("three"));
  REQUIRE(result.skipped.size() == 1);
  CHECK(result.skipped[0].message.find(folder / "a: the zstd data are cut off") != std::string::npos);
}

TEST_CASE("a line of a compressed file is at most 64 MiB long, unless an option raises that") {
  const temporary_folder folder;
  constexpr std::size_t most = std::size_t{64} << 20;
  folder.write("a", zstd("one\n" + std::string(most + 1, 'x') + "\n" + std::string(most, 'y') + "\r\ntwo\n"));
  std::vector<std::size_t> sizes;
  std::string problem;
  const auto run = [&](const fl::lines_options& options) {
    sizes.clear();
    auto loader = fl::lines(folder / "a", options).finite({.on_error = fl::on_error::skip});
    while (const auto line = loader.next()) sizes.push_back(line->size());
    problem = loader.failures().empty() ? "" : loader.failures().front().message;
  };
  run({.decompress = {fl::unzstd_stream}});
  CHECK(sizes == std::vector<std::size_t>{3, most, 3});
  CHECK(problem.find("a: line 2 has 67108865 bytes, more than lines_options::max_line_bytes, 67108864") !=
        std::string::npos);
  run({.max_line_bytes = most + 1, .decompress = {fl::unzstd_stream}});
  CHECK(sizes == std::vector<std::size_t>{3, most + 1, most, 3});
  CHECK(problem.empty());
  const auto plan = [&](const fl::lines_options& options) {
    return fl::lines(folder / "a", options).source().max_item_bytes();
  };
  CHECK(plan({.decompress = {fl::unzstd_stream}}) == sizeof(std::string) + most + 1);
  CHECK_FALSE(plan({}));
}

TEST_CASE("a run with a memory budget counts the largest window") {
  const temporary_folder folder;
  folder.write("a", zstd("one\n"));
  const auto source = fl::lines(folder / "a", {.max_line_bytes = 100, .decompress = {fl::unzstd_stream}});
  CHECK(source.source().bytes_held() > std::size_t{128} << 20);
  CHECK(source.source().bytes_held() < std::size_t{130} << 20);
}

TEST_CASE("Resumed: lines of zstd files, which keep the promises of a source") {
  const temporary_folder folder;
  for (std::uint64_t i = 0; i < 3; ++i)
    folder.write(std::to_string(i),
                 i == 1 ? some_text(20, i) : zstd(some_text(10, i)) + zstd(some_text(10, i + 5)));
  leave_and_resume("zstd lines", 20, [&](draw& d, const circumstances& c) {
    return lines_of(folder / "?", {.max_line_bytes = d(40, 60), .decompress = {fl::unzstd_stream}},
                    c.workers);
  });
  fl::testing::check_source(
      [&] { return fl::lines(folder / "?", {.max_line_bytes = 50, .decompress = {fl::unzstd_stream}}); },
      {.places = 8, .has_budget = true});
}
