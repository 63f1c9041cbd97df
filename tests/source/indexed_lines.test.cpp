// SPDX-License-Identifier: MIT
#include <feedline/source/indexed_lines.hpp>

#include <feedline/source/detail/index_file.hpp>
#include <feedline/source/global_shuffle.hpp>
#include <feedline/stage/map.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/leave_and_resume.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/rounds.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using namespace feedline::test;
using fl::detail::line_index;
using fl::detail::lines_by_position;

namespace {

using texts = std::vector<std::string>;
using numbered_lines = std::vector<std::pair<std::uint64_t, std::string>>;

static_assert(fl::indexed_source<fl::detail::indexed_lines_source> &&
              !fl::indexed_source<fl::detail::lines_source>);

fl::detail::indexed_lines_source source_of(const fl::file_patterns& files,
                                           const fl::indexed_lines_options& options = {}) {
  return {files, options};
}

lines_by_position kept(const fl::file_patterns& files) {
  return source_of(files, {.keep_index = true}).indexed();
}

texts all_of(const lines_by_position& lines) {
  texts all;
  for (std::uint64_t i = 0; i < lines.size(); ++i) all.push_back(lines.at(i));
  return all;
}

/// Each line, or what reading it throws, with its index.
numbered_lines in_order(fl::detail::indexed_lines_source source) {
  source.start_epoch({.extent = source.extent()});
  numbered_lines all;
  for (;;) {
    try {
      auto line = source.next();
      if (!line) return all;
      all.emplace_back(source.index(), std::move(*line));
    } catch (const std::exception& error) {
      all.emplace_back(source.index(), error.what());
    }
  }
}

numbered_lines by_position(const fl::detail::indexed_lines_source& source) {
  const auto lines = source.indexed();
  numbered_lines all(lines.size());
  for (std::uint64_t i = lines.size(); i-- > 0;) {
    const std::uint64_t index = lines.index_at(i);
    CHECK(lines.find(index) == i);
    try {
      all[i] = {index, lines.at(i)};
    } catch (const std::exception& error) {
      all[i] = {index, error.what()};
    }
  }
  return all;
}

/// Lines of 0 to `longest` bytes, with all kinds of ends.
std::string some_text(std::uint64_t seed, std::size_t lines, std::size_t longest) {
  fl::random_generator random(seed);
  std::string text = random.chance(0.2) ? "\xef\xbb\xbf" : "";
  for (std::size_t i = 0; i < lines; ++i) {
    text.append(static_cast<std::size_t>(random.below(longest + 1)),
                static_cast<char>('a' + random.below(26)));
    if (i + 1 < lines || random.chance(0.7)) text += random.chance(0.2) ? "\r\n" : "\n";
  }
  return text;
}

/// Writes an index file with a right checksum.
void forge(const std::string& text, const line_index& index) {
  const auto words = fl::detail::to_words(index, fl::detail::fingerprint_of_file(text));
  std::filesystem::remove(fl::detail::path_of_line_index(text));
  fl::detail::write_index_file(fl::detail::path_of_line_index(text), "fllines", words);
}

line_index index_kept_for(const std::string& text) {
  return fl::detail::line_index_from(fl::detail::read_index_file(fl::detail::path_of_line_index(text)),
                                     fl::detail::fingerprint_of_file(text))
      .value();
}

void overwrite(const std::string& file, std::string_view contents) {
  std::ofstream(file, std::ios::binary) << contents;
}

using change = std::function<std::string(std::string, fl::context&)>;

} // namespace

TEST_CASE("lines by position are those in order, with the same indices and failures") {
  const temporary_folder folder;
  folder.write("0", "one\ntwo\r\n\nfour");
  folder.write("1", "");
  folder.write("2", "\xef\xbb\xbf");
  folder.write("3", "\xef\xbb\xbf"
                    "a\n\xef\xbb\xbf"
                    "b");
  folder.write("4", "\xff\xfex");
  folder.write("5", "much too long\nshort\ntoo long\r\nlonger too\r");
  folder.write("6", "\n");
  for (int i = 10; i < 60; ++i)
    folder.write(std::to_string(i),
                 some_text(static_cast<std::uint64_t>(i), static_cast<std::size_t>(i), 12));
  const auto source = source_of({folder / "*"}, {.max_line_bytes = 9});
  const auto expected = in_order(source);
  CHECK(expected.size() > 1500);
  CHECK((by_position(source) == expected));
}

TEST_CASE("of long texts the index has 8 bytes for each KB at most, and finds each line") {
  const temporary_folder folder;
  for (const std::size_t longest : {0u, 3u, 100u, 5000u}) {
    const std::string path =
        folder.write("text", some_text(longest, longest > 1000 ? 500 : 100'000, longest));
    const std::size_t bytes = std::filesystem::file_size(path);
    const auto source = source_of({path}, {.keep_index = true});
    CHECK((by_position(source) == in_order(source)));
    CHECK(std::filesystem::file_size(fl::detail::path_of_line_index(path)) <= 600 + 8 * (bytes / 1024));
    const auto index = index_kept_for(path);
    CHECK((longest > 1000) == (index.step == 1));
    CHECK(index.begins.size() >= std::min<std::size_t>(bytes / 5000, 32));
    std::filesystem::remove(fl::detail::path_of_line_index(path));
  }
}

TEST_CASE("a file whose lines have no position is one failure, and the others are read") {
  const temporary_folder folder;
  folder.write("a", "a1\na2\n");
  folder.write("b", "\x1f\x8b\x08 and more\nlines\n");
  folder.write("c", "");
  folder.write("d", "d1\n");
  const auto source = source_of({folder / "?"});
  std::filesystem::remove(folder / "c");
  const auto lines = source.indexed();
  REQUIRE(lines.size() == 5);
  CHECK(lines.at(1) == "a2");
  CHECK(throws_saying<std::runtime_error>(
      folder / "b is gzip data: read it with lines and lines_options::decompress", [&] { lines.at(2); }));
  CHECK(throws_saying<std::runtime_error>(folder / "c", [&] { lines.at(3); }));
  CHECK(lines.at(4) == "d1");
  folder.write("b", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n");
  folder.write("c", "");
  CHECK(throws_saying<std::runtime_error>(folder / "b is a Git LFS pointer: fetch the file itself",
                                          [&] { source_of({folder / "?"}).indexed().at(2); }));
  CHECK(throws_saying<std::runtime_error>("No such file", [&] { source_of({folder / "x"}).indexed(); }));
}

TEST_CASE("an index is kept in a hidden file next to its text, and used while it matches") {
  const temporary_folder folder;
  const texts three{"one", "two", "three"};
  const std::string path = folder.write("x.txt", "one\ntwo\nthree\n"), file = folder / ".x.txt.index";
  CHECK(all_of(source_of({folder / "*"}).indexed()) == three);
  CHECK_FALSE(std::filesystem::exists(file));
  CHECK(all_of(kept({folder / "*"})) == three);
  const std::string good = contents_of(file);
  CHECK(good.starts_with("fllines"));
  CHECK(all_of(kept({folder / "*"})) == three); // the pattern doesn't match the index

  // The file is used: one without a line, but with a matching checksum, is accepted.
  line_index fewer = index_kept_for(path);
  fewer.lines = 2;
  fewer.begins.resize(2);
  forge(path, fewer);
  CHECK(kept({path}).size() == 2);

  // Any changed byte or length is found, and the file replaced.
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    for (const std::string& wrong : {bad, good.substr(0, i)}) {
      overwrite(file, wrong);
      REQUIRE(all_of(kept({path})) == three);
      const bool is_index = wrong.size() < 7 || wrong.starts_with("fllines"); // others aren't overwritten
      REQUIRE(contents_of(file) == (is_index ? good : wrong));
    }
  }
  overwrite(file, good + good);
  CHECK(all_of(kept({path})) == three);

  // An index that doesn't say where the first line begins.
  line_index later = index_kept_for(path);
  later.begins = {4, 8, 9};
  forge(path, later);
  CHECK(all_of(kept({path})) == three);
}

TEST_CASE("an index is made again when its text has changed") {
  const temporary_folder folder;
  const std::string path = folder.write("x", "one\ntwo\n");
  CHECK(kept({path}).size() == 2);
  const auto time = std::filesystem::last_write_time(path);
  overwrite(path, "1\n2\n3\n4\n"); // of the same size
  CHECK(all_of(kept({path})) == texts{"1", "2", "3", "4"});
  overwrite(path, "five\nsix");
  std::filesystem::last_write_time(path, time); // and of the same time
  CHECK(all_of(kept({path})) == texts{"five", "six"});
  overwrite(path, "seven");
  CHECK(all_of(kept({path})) == texts{"seven"});
  // In the middle of a large file only the time shows it.
  std::string large = some_text(1, 10'000, 9);
  overwrite(path, large);
  CHECK(kept({path}).size() > 9'000);
  std::replace(large.begin() + 20'000, large.begin() + 30'000, '\n', 'x');
  overwrite(path, large);
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
  CHECK(by_position(source_of({path}, {.keep_index = true})) == in_order(source_of({path})));
}

TEST_CASE("where the index can't be written, lines are found all the same") {
  const temporary_folder folder;
  const std::string path = folder.write("x", "one\ntwo\n");
  std::filesystem::create_directories(folder / ".x.index/of something else");
  CHECK(all_of(kept({path})) == texts{"one", "two"});
  CHECK(std::filesystem::is_directory(folder / ".x.index"));
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++files;
  CHECK(files == 2); // no draft is left
}

TEST_CASE("offsets beyond 4 GB are found") {
  const temporary_folder folder;
  const std::string path = folder / "large";
  constexpr std::uint64_t end = std::uint64_t{5} << 30;
  {
    std::ofstream file(path, std::ios::binary);
    file.seekp(static_cast<std::streamoff>(end - 1)); // zeros that take no room on the disk
    file << "\none\ntwo\nthree";
  }
  // Its own index: finding its lines would read all of the zeros.
  line_index index{.bytes = end + 13,
                   .modified_ns = fl::detail::mapped_file(path).modified_ns(),
                   .lines = 4,
                   .begins = {0, end, end + 4, end + 8}};
  forge(path, index);
  const auto lines = kept({path});
  REQUIRE(lines.size() == 4);
  CHECK(lines.at(1) == "one");
  CHECK(lines.at(3) == "three");
  index.step = 2;
  index.begins = {0, end + 4};
  forge(path, index);
  CHECK(kept({path}).at(3) == "three");
}

TEST_CASE("a forged index yields whole lines of its text or failures, and reads nothing else") {
  const temporary_folder folder;
  const std::string text = some_text(7, 300, 20), path = folder.write("x", text);
  kept({path});
  const line_index right = index_kept_for(path);
  std::map<std::string, int> whole;
  for (const auto& [index, line] : in_order(source_of({path}))) ++whole[line];
  fl::random_generator random(1);
  const std::uint64_t limits[] = {
      0, 1, 2, right.bytes - 1, right.bytes, right.bytes + 1, ~std::uint64_t{0}, ~std::uint64_t{0} / 2 + 1};
  const auto number = [&] {
    return random.chance(0.3) ? limits[random.below(8)] : random.below(right.bytes);
  };
  int failures = 0, accepted = 0;
  for (int i = 0; i < rounds(3000, 1000); ++i) {
    line_index wrong = right;
    if (random.chance(0.5)) wrong.step = number();
    if (random.chance(0.5)) wrong.lines = number();
    if (random.chance(0.5)) {
      wrong.begins.clear();
      for (std::uint64_t left = random.below(40); left > 0; --left) wrong.begins.push_back(number());
      std::sort(wrong.begins.begin(), wrong.begins.end());
      wrong.begins.erase(std::unique(wrong.begins.begin(), wrong.begins.end()), wrong.begins.end());
      if (random.chance(0.8) && !wrong.begins.empty()) wrong.begins[0] = right.begins[0];
      if (random.chance(0.8)) wrong.step = 1 + random.below(9);
      if (random.chance(0.8)) wrong.lines = wrong.begins.size() * wrong.step;
    } else {
      for (std::uint64_t left = random.below(4); left > 0; --left)
        wrong.begins[random.below(wrong.begins.size())] += random.below(7) - 3;
    }
    const auto index = fl::detail::line_index_from(fl::detail::to_words(wrong, 5), 5);
    CHECK_FALSE(fl::detail::line_index_from(fl::detail::to_words(wrong, 5), 6));
    if (!index) continue;
    ++accepted;
    const fl::detail::mapped_file file(path);
    for (std::uint64_t line = 0; line < std::min<std::uint64_t>(index->lines, 400); ++line) {
      try {
        auto [found, has_end] = fl::detail::find_line(file, *index, line);
        if (has_end && found.ends_with('\r')) found.remove_suffix(1);
        if (line >= index->step) REQUIRE(whole.count(std::string(found)) == 1);
      } catch (const std::runtime_error& error) {
        ++failures;
        REQUIRE(std::string(error.what())
                    .find("although its index has one: delete " + folder.path() + "/.x.index") !=
                std::string::npos);
      }
    }
  }
  CHECK(accepted > 100);
  CHECK(failures > 100);
}

TEST_CASE("a text that changes after it was indexed is a failure of its lines") {
  const temporary_folder folder;
  folder.write("x", "one\ntwo\n");
  const auto lines = source_of({folder / "x"}).indexed();
  overwrite(folder / "x", "one\ntwo\nthree\n");
  CHECK(
      throws_saying<std::runtime_error>(folder / "x has changed since it was indexed", [&] { lines.at(0); }));
}

TEST_CASE("a stop ends the search for lines") {
  const temporary_folder folder;
  folder.write("x", "one\ntwo\n");
  std::stop_source stop;
  stop.request_stop();
  CHECK_THROWS_AS(source_of({folder / "x"}).indexed(stop.get_token()), std::runtime_error);
  const auto kept = source_of({folder / "x"}, {.keep_index = true});
  CHECK(kept.indexed().size() == 2);
  CHECK_THROWS_AS(kept.indexed(stop.get_token()), std::runtime_error);
}

TEST_CASE("global_shuffle yields each line once per epoch, in an order of its own, divided among ranks") {
  const temporary_folder folder;
  for (int i = 0; i < 5; ++i)
    folder.write(std::to_string(i), some_text(static_cast<std::uint64_t>(i), 30, 12));
  const change numbered = [](std::string line, fl::context& c) {
    return std::to_string(c.index) + " " + line;
  };
  const auto p = fl::indexed_lines({folder / "?"}) | fl::global_shuffle() | fl::map(numbered, fl::workers{2});
  texts expected;
  for (const auto& [index, line] : in_order(source_of({folder / "?"})))
    expected.push_back(std::to_string(index) + " " + line);
  const auto sorted = [](texts all) {
    std::sort(all.begin(), all.end());
    return all;
  };
  const auto first = collect(p.finite({.seed = 1})),
             second = collect(p.finite({.seed = 1, .first_epoch = 1}));
  CHECK(first != second);
  CHECK(first != expected);
  CHECK(sorted(first) == sorted(expected));
  CHECK(sorted(second) == sorted(expected));
  CHECK(p.size() == expected.size());
  texts of_ranks;
  for (const std::uint32_t rank : {0u, 1u, 2u})
    for (auto& line : collect(p.finite({.seed = 1, .rank = {rank, 3}}))) of_ranks.push_back(std::move(line));
  CHECK(of_ranks.size() >= expected.size());
  of_ranks = sorted(std::move(of_ranks));
  of_ranks.erase(std::unique(of_ranks.begin(), of_ranks.end()), of_ranks.end());
  CHECK(of_ranks == sorted(expected));
  CHECK(collect(p.infinite({.seed = 1}), first.size()) == first);
}

TEST_CASE("Resumed: shuffled lines with failures") {
  const temporary_folder folder;
  for (int i = 0; i < 5; ++i)
    folder.write(std::to_string(i), some_text(static_cast<std::uint64_t>(i), 12, 12));
  const change refuse_some = [](std::string line, fl::context& c) {
    if (c.index % 5 == 3) throw unlucky(3);
    return std::to_string(c.epoch) + ":" + std::to_string(c.index) + " " + line;
  };
  leave_and_resume("shuffled lines", 30, [&](draw& d, const circumstances& c) {
    return fl::indexed_lines({folder / "?"}, {.max_line_bytes = d(0, 12), .keep_index = d.coin()}) |
           fl::global_shuffle() | fl::map(refuse_some, fl::workers{c.workers});
  });
}
