// SPDX-License-Identifier: MIT
#include <feedline/source/lines.hpp>

#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/page_cache.hpp"
#include "support/refusing.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using namespace std::string_literals;
using fl::test::collect;
using fl::test::comes_into_memory;
using fl::test::file_system_reads_ahead;
using fl::test::run_to_end;
using fl::test::temporary_folder;
using fl::test::throws_saying;
using fl::test::worker_counts;

namespace {

using texts = std::vector<std::string>;

static_assert(std::is_same_v<decltype(fl::lines({}))::item, std::string>);

texts lines_of(const texts& patterns) { return collect((fl::lines(patterns) | fl::prefetch(10)).finite()); }

texts lines_of(std::string_view content) {
  const temporary_folder folder;
  return lines_of(texts{folder.write("text", content)});
}

/// Each line with its index.
auto numbered(const texts& patterns, std::size_t workers = 1) {
  return fl::lines(patterns) |
         fl::map([](std::string line, fl::context& c) { return std::pair(c.index, std::move(line)); },
                 fl::workers{workers});
}

using numbered_lines = std::vector<std::pair<std::uint64_t, std::string>>;

constexpr std::uint64_t second_file = std::uint64_t{1} << 40;

} // namespace

TEST_CASE("lines yields each line without its end, \\n or \\r\\n") {
  CHECK(lines_of("one\ntwo\n") == texts{"one", "two"});
  CHECK(lines_of("one\r\ntwo\r\n") == texts{"one", "two"});
  CHECK(lines_of("one\r\ntwo\nthree\r\n") == texts{"one", "two", "three"});
  CHECK(lines_of("a\rb\r\r\n") == texts{"a\rb\r"});
}

TEST_CASE("a line that is too long is a failure at its position") {
  const temporary_folder folder;
  const std::string path = folder.write("text", "12345\r\n123456\n1\n123456");
  const auto outcome = run_to_end(
      (fl::lines({path}, {.max_line_bytes = 5}) | fl::prefetch(2)).finite({.on_error = fl::on_error::skip}));
  CHECK(outcome.items == texts{"12345", "1"});
  REQUIRE(outcome.skipped.size() == 2);
  CHECK(outcome.skipped[0].message.find(
            path + ": line 2 has 6 bytes, more than lines_options::max_line_bytes, 5") != std::string::npos);
  CHECK(outcome.skipped[1].message.find("line 4") != std::string::npos);
}

TEST_CASE("lines yields empty lines, and a last line without an end if it isn't empty") {
  CHECK(lines_of("\n\none\n\r\n") == texts{"", "", "one", ""});
  CHECK(lines_of("one\ntwo") == texts{"one", "two"});
  CHECK(lines_of("one\ntwo\r") == texts{"one", "two\r"});
  CHECK(lines_of("\n") == texts{""});
  CHECK(lines_of("").empty());
}

TEST_CASE("a byte order mark of UTF-8 is dropped at the beginning of a file, and only there") {
  const std::string mark = "\xef\xbb\xbf";
  CHECK(lines_of(mark + "x,label\r\n" + mark + "1\n") == texts{"x,label", mark + "1"});
  CHECK(lines_of(mark).empty());
  CHECK(lines_of(mark + "\n") == texts{""});
  CHECK(lines_of(mark + mark) == texts{mark});
  CHECK(lines_of(mark.substr(0, 2)) == texts{mark.substr(0, 2)});
}

TEST_CASE("a file that isn't text is a failure that says what it is, and the next file follows") {
  const temporary_folder folder;
  folder.write("b", "text\n");
  const auto refuses = [&](std::string_view begin, const std::string& words) {
    folder.write("a", begin);
    const auto result =
        run_to_end((fl::lines({folder / "?"}) | fl::prefetch(2)).finite({.on_error = fl::on_error::skip}));
    CHECK(result.items == texts{"text"});
    return result.skipped.size() == 1 &&
           result.skipped[0].message.find(folder / "a is " + words) != std::string::npos;
  };
  CHECK(refuses(
      "\x1f\x8b\x08 and more\nlines\n",
      "gzip data: read it with lines and lines_options::decompress = {feedline::gunzip_stream}, which is "
      "in feedline/gzip.hpp of the component feedline::gzip"));
  CHECK(refuses("\x28\xb5\x2f\xfd",
                "zstd data: read it with lines and lines_options::decompress = {feedline::unzstd_stream}"));
  CHECK(refuses("\x5f\x2a\x4d\x18", "zstd data")); // a skippable frame
  CHECK(refuses("BZh91AY&SY", "bzip2 data: decompress it first"));
  CHECK(refuses("\xfd"
                "7zXZ",
                "xz data"));
  CHECK(refuses("PK\x03\x04", "zip data"));
  CHECK(refuses("\xff\xfex", "UTF-16 text"));
  CHECK(refuses("\xfe\xffx", "UTF-16 text"));
  CHECK(refuses("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
                "a Git LFS pointer: fetch the file itself with `git lfs pull`"));
  for (const char* text : {"BZh is text", "LZIP", "Rar!", "RIFF", "<html>", "\x1f", "GIF89a", "ID3"})
    CHECK(lines_of(std::string_view(text)) == texts{text});
}

TEST_CASE("lines yields long lines and any bytes") {
  const std::string text = "a\0b\xff"s, long_line(200'000, 'x');
  CHECK(lines_of(text + "\n" + long_line) == texts{text, long_line});
  CHECK(lines_of(long_line.substr(0, 4096)) == texts{long_line.substr(0, 4096)}); // ends at a page boundary
}

TEST_CASE("lines reads files as listed and patterns in the order of the bytes, including empty files") {
  const temporary_folder folder;
  folder.write("b.txt", "b1\nb2\n");
  folder.write("a.txt", "a1");
  folder.write("empty.txt", "");
  folder.write("z.txt", "z1\n");
  CHECK(lines_of(texts{folder / "*.txt"}) == texts{"a1", "b1", "b2", "z1"});
  CHECK(lines_of(texts{folder / "z.txt", folder / "{b,a}.txt"}) == texts{"z1", "b1", "b2", "a1"});
}

TEST_CASE(
    "lines without a file are an error at once, which names the pattern or says that the list is empty") {
  const temporary_folder folder;
  const std::string pattern = folder / "*.csv";
  CHECK(throws_saying<std::runtime_error>("no file matches `" + pattern, [&] { fl::lines({pattern}); }));
  CHECK(throws_saying<std::invalid_argument>("feedline::lines: the list of files is empty",
                                             [&] { fl::lines(texts{}); }));
}

TEST_CASE(
    "a text that two patterns match is an error at once, which names it; a link to it is another text") {
  const temporary_folder folder;
  folder.write("a.txt", "a");
  folder.write("b.txt", "b");
  const auto refuses = [&](const texts& patterns) {
    return throws_saying<std::invalid_argument>("b.txt` is listed twice", [&] { fl::lines(patterns); });
  };
  CHECK(refuses({folder / "b.txt", folder / "b.txt"}));
  CHECK(refuses({folder / "*.txt", folder / "b.*"}));
  CHECK(refuses({folder / "{a,b}.txt", folder / "./[b-z].txt"}));
  std::filesystem::create_symlink(folder / "b.txt", folder / "c.txt");
  CHECK(lines_of(texts{folder / "*.txt"}) == texts{"a", "b", "b"});
}

TEST_CASE("the index of a line is its file's number and its position, unique and the same in every epoch") {
  const temporary_folder folder;
  folder.write("0", "a\nb\n");
  folder.write("1", "");
  folder.write("2", "c\n\nd");
  const numbered_lines expected{
      {0, "a"}, {1, "b"}, {2 * second_file, "c"}, {2 * second_file + 1, ""}, {2 * second_file + 2, "d"}};
  for (const std::size_t workers : worker_counts) {
    const auto p = numbered({folder / "?"}, workers);
    CHECK(collect(p.finite()) == expected);
    const auto items = collect(p.infinite({.seed = 1}), 50);
    REQUIRE(items.size() == 50);
    for (auto epoch = items.begin(); epoch != items.end(); epoch += 5) {
      numbered_lines sorted(epoch, epoch + 5);
      std::sort(sorted.begin(), sorted.end());
      CHECK(sorted == expected);
    }
  }
}

TEST_CASE(
    "in each of several epochs lines has a new order of files, by the seed, and keeps the order of lines") {
  const temporary_folder folder;
  for (int i = 10; i < 30; ++i) folder.write(std::to_string(i), "first\nsecond\n");
  const auto p = numbered({folder / "??"});
  const auto items = collect(p.finite({.seed = 4, .epochs = 2}));
  REQUIRE(items.size() == 80);
  const numbered_lines first(items.begin(), items.begin() + 40), second(items.begin() + 40, items.end());
  CHECK(first != second);
  CHECK_FALSE(std::is_sorted(first.begin(), first.end()));
  for (std::size_t i = 0; i < 80; i += 2) {
    CHECK(items[i].second == "first");
    CHECK(items[i + 1] == std::pair(items[i].first + 1, "second"s));
  }
  CHECK(collect(p.infinite({.seed = 4}), 80) == items);
  CHECK(collect(p.finite({.seed = 5, .epochs = 2})) != items);
  const auto once = collect(p.finite({.seed = 4}));
  CHECK(std::is_sorted(once.begin(), once.end()));
}

TEST_CASE("an error names a line by its file and number, counted from 1") {
  const temporary_folder folder;
  folder.write("0", "1\n2\n");
  folder.write("1", "3\n44\n5\n");
  const auto p = fl::lines({folder / "?"}) |
                 fl::map([](const std::string& line) { return fl::test::refusing{{44}}(std::stoi(line)); });
  const auto result = run_to_end(p.finite());
  CHECK(result.items == std::vector{1, 2, 3});
  REQUIRE(result.failed);
  CHECK(result.failed->index == second_file + 1);
  CHECK(result.failed->origin == folder / "1: line 2");
}

TEST_CASE("a deleted file of lines is a failure at its position, and with skip the next file follows") {
  const temporary_folder folder;
  for (const char* name : {"a", "b", "c"}) folder.write(name, "1 of "s + name + "\n2 of " + name + "\n");
  const auto p = fl::lines({folder / "?"}) | fl::prefetch(10);
  std::filesystem::remove(folder / "b");
  const auto result = run_to_end(p.finite());
  CHECK(result.items == texts{"1 of a", "2 of a"});
  REQUIRE(result.failed);
  CHECK(result.failed->stage == "lines");
  CHECK(result.failed->message.find(folder / "b") != std::string::npos);

  const auto skipping = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(skipping.items == texts{"1 of a", "2 of a", "1 of c", "2 of c"});
  CHECK(skipping.skipped.size() == 1);
}

TEST_CASE("lines rejects a directory instead of a file") {
  const temporary_folder folder;
  const auto result = run_to_end((fl::lines({folder.path()}) | fl::prefetch(2)).finite());
  REQUIRE(result.failed);
  CHECK(result.failed->message.find(folder.path()) != std::string::npos);
}

TEST_CASE("a file that is deleted while its lines are read is read to its end") {
  const temporary_folder folder;
  std::string content;
  for (int i = 0; i < 5000; ++i) content += std::to_string(i) + "\n";
  folder.write("big", content);
  auto loader = (fl::lines({folder / "big"}) | fl::prefetch(1)).finite();
  CHECK(loader.next() == "0");
  std::filesystem::remove(folder / "big");
  for (int i = 1; i < 5000; ++i) REQUIRE(loader.next() == std::to_string(i));
  CHECK_FALSE(loader.next());
}

TEST_CASE("while lines reads a file, the system reads the beginning of the next one") {
  const temporary_folder folder;
  constexpr std::size_t size = 1 << 20;
  const auto first = folder.write("a", std::string(size, '\n')),
             second = folder.write("b", std::string(size, '\n'));
  if (!file_system_reads_ahead(second, size / 2)) return;
  auto loader = (fl::lines({folder / "?"}) | fl::prefetch(1)).finite();
  REQUIRE(loader.next());
  CHECK(comes_into_memory(second, size / 2));
}

namespace {

/// Text of two steps whose second reading fails once.
class failing_once : public fl::text_stream {
 public:
  std::size_t read(std::byte* to, std::size_t count) override {
    if (++reads_ == 2) throw std::runtime_error("a reading that fails");
    const std::size_t size = reads_ == 1 ? count : std::min<std::size_t>(count, 4);
    std::fill_n(to, size, std::byte{'x'});
    if (reads_ > 1) to[size - 1] = std::byte{'\n'};
    return size;
  }

  std::size_t offset() const noexcept override { return 0; }

  const std::string& problem() const noexcept override { return problem_; }

 private:
  std::string problem_;
  int reads_ = 0;
};

} // namespace

TEST_CASE("a reading of compressed text that fails adds nothing to the text") {
  const temporary_folder folder;
  const std::string path = folder.write("text.gz", "\x1f\x8b\x08\0\0\0\0\0\0\3"s);
  const fl::lines_options options{
      .decompress = {{"gzip data", 0,
                      [](std::span<const std::byte>, fl::compressed_rest)
                          -> std::unique_ptr<fl::text_stream> { return std::make_unique<failing_once>(); }}}};
  const auto outcome =
      run_to_end((fl::lines({path}, options) | fl::prefetch(2)).finite({.on_error = fl::on_error::skip}));
  REQUIRE(outcome.skipped.size() == 1);
  CHECK(outcome.skipped[0].message.find("a reading that fails") != std::string::npos);
  REQUIRE(outcome.items.size() == 1);
  CHECK(outcome.items[0].find_first_not_of('x') == std::string::npos);
}
