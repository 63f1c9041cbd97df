// SPDX-License-Identifier: MIT
#include <feedline/source/read_files.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/testing.hpp>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

std::string_view text_of(std::span<const std::byte> file) {
  return {reinterpret_cast<const char*>(file.data()), file.size()};
}

/// After a "W", words of varying length, each behind a space.
struct words {
  static constexpr const char* sample_name = "word";

  std::uint64_t count(std::span<const std::byte> file) const {
    if (!text_of(file).starts_with('W')) throw std::runtime_error("no words");
    return static_cast<std::uint64_t>(std::ranges::count(text_of(file), ' '));
  }

  std::string at(std::span<const std::byte> file, std::uint64_t number) const {
    std::string_view text = text_of(file);
    for (std::uint64_t i = 0; i <= number; ++i) text.remove_prefix(text.find(' ') + 1);
    text = text.substr(0, text.find(' '));
    if (text == "bad") throw std::runtime_error("a bad word");
    if (text == "busy")
      throw std::system_error(std::make_error_code(std::errc::device_or_resource_busy), "a busy word");
    return std::string(text);
  }
};

static_assert(fl::file_format<words> && !fl::file_format<std::string>);

/// Pairs of characters; the number of them follows from the size.
struct pairs {
  static constexpr const char* kind = "pairs";

  std::uint64_t count(std::uint64_t bytes) const { return (bytes + 1) / 2; }

  std::string at(std::span<const std::byte> file, std::uint64_t number) const {
    if (file.size() < offset(number + 1)) throw std::runtime_error("half a pair");
    return std::string(text_of(file).substr(offset(number), 2)) + suffix;
  }

  std::uint64_t offset(std::uint64_t number) const { return 2 * number; }

  std::uint64_t fingerprint() const { return static_cast<unsigned char>(suffix); }

  std::string parameters() const { return std::string("pairs.suffix: ") + suffix; }

  std::size_t max_item_bytes() const { return sizeof(std::string); }

  char suffix = '.';
};

using texts = std::vector<std::string>;

template <class Format>
auto read(const temporary_folder& folder, Format format = {}) {
  return fl::read_files(folder / "*", std::move(format));
}

texts sorted(texts all) {
  std::ranges::sort(all);
  return all;
}

/// The items and the failures' texts of a run that skips failures.
template <class Pipeline>
std::pair<texts, texts> outcome_of(const Pipeline& pipeline) {
  auto run = (pipeline | fl::prefetch(4)).finite({.on_error = fl::on_error::skip});
  texts items, failures;
  while (auto item = run.next()) items.push_back(*item);
  for (const fl::failure& f : run.failures()) failures.push_back(f.message + " | " + f.origin);
  return {items, failures};
}

} // namespace

TEST_CASE("read_files yields the samples of each file in order and by position") {
  const temporary_folder folder;
  folder.write("a", "W one two");
  folder.write("b", "W");
  folder.write("c", "W three");
  const texts all{"one", "two", "three"};
  CHECK(collect((read<words>(folder) | fl::prefetch(4)).finite()) == all);
  CHECK(collect((read<words>(folder) | fl::interleave(3) | fl::prefetch(4)).finite()) ==
        texts{"one", "three", "two"});
  CHECK(sorted(collect((read<words>(folder) | fl::global_shuffle() | fl::prefetch(4)).finite())) ==
        sorted(all));
  const auto indexed = read<words>(folder) | fl::map([](const std::string& word, fl::context& c) {
                         return word + std::to_string(c.index >> 40) + std::to_string(c.index & 0xff);
                       });
  CHECK(collect((indexed | fl::prefetch(4)).finite()) == texts{"one00", "two01", "three20"});
}

TEST_CASE("What a format throws is the failure of a sample or a file, with the file's name") {
  const temporary_folder folder;
  const std::string a = folder.write("a", "W one bad two busy"), b = folder.write("b", "no words at all"),
                    c = folder.write("c", "W three");
  const auto [items, failures] = outcome_of(read<words>(folder));
  CHECK(items == texts{"one", "two", "three"});
  REQUIRE(failures.size() == 3);
  CHECK(failures[0].starts_with(a + ": a bad word"));
  CHECK(failures[1].starts_with("a busy word: "));
  CHECK(failures[2].starts_with(b + ": no words"));

  const auto [shuffled, shuffled_failures] = outcome_of(read<words>(folder) | fl::global_shuffle());
  CHECK(sorted(shuffled) == texts{"one", "three", "two"});
  CHECK(sorted(shuffled_failures) ==
        sorted({a + ": a bad word | " + a + ": word 1",
                failures[1].substr(0, failures[1].find(" |")) + " | " + a + ": word 3",
                b + ": no words | " + b + ": word 0"}));
}

TEST_CASE("A file that goes before it is reached is a failure, and so is half a sample") {
  const temporary_folder folder;
  folder.write("a", "aabbc");
  folder.write("b", "dd");
  auto source = read<pairs>(folder).source();
  auto by_position = (read<pairs>(folder) | fl::global_shuffle()).source();
  source.start_epoch({});
  by_position.start_epoch({});
  std::filesystem::remove(folder / "b");
  CHECK(source.next() == "aa.");
  CHECK(source.next() == "bb.");
  CHECK(throws_saying<std::runtime_error>((folder / "a") + ": half a pair", [&] { source.next(); }));
  CHECK(throws_saying<std::system_error>("No such file", [&] { source.next(); }));
  CHECK_FALSE(source.next());
  int failed = 0;
  texts items;
  for (int i = 0; i < 4; ++i) {
    try {
      items.push_back(*by_position.next());
    } catch (const std::runtime_error&) {
      ++failed;
    }
  }
  CHECK(sorted(items) == texts{"aa.", "bb."});
  CHECK(failed == 2);
  CHECK_FALSE(by_position.next());
}

TEST_CASE("By position, what is appended later isn't read, and what is gone fails") {
  const temporary_folder folder;
  folder.write("a", "aabb");
  auto source = (read<pairs>(folder) | fl::global_shuffle()).source();
  source.start_epoch({});
  folder.write("a", "aabbcc");
  CHECK(sorted({*source.next(), *source.next()}) == texts{"aa.", "bb."});
  CHECK_FALSE(source.next());
  auto shorter = (read<pairs>(folder) | fl::global_shuffle()).source();
  shorter.start_epoch({});
  folder.write("a", "aa");
  texts left;
  int gone = 0;
  for (int i = 0; i < 3; ++i) {
    try {
      left.push_back(*shorter.next());
    } catch (const std::runtime_error& error) {
      CHECK(error.what() == (folder / "a") + " has become shorter since it was listed");
      ++gone;
    }
  }
  CHECK(left == texts{"aa."});
  CHECK(gone == 2);
}

TEST_CASE("A run of read_files is resumed exactly, and not with other parameters") {
  const temporary_folder folder;
  for (const char* name : {"a", "b", "c", "d", "e"})
    folder.write(name, std::string("W ") + name + "1 " + name + "2 bad " + name + "3");
  const auto pipeline = read<words>(folder) | fl::prefetch(1);
  const fl::infinite_options skip{.seed = 3, .on_error = fl::on_error::skip};
  auto whole = pipeline.infinite(skip);
  texts all;
  while (all.size() < 40) all.push_back(*whole.next());
  for (std::size_t taken = 0; taken < 34; ++taken) {
    auto first = pipeline.infinite(skip);
    for (std::size_t i = 0; i < taken; ++i) first.next();
    auto options = skip;
    options.resume = first.checkpoint();
    auto second = pipeline.infinite(options);
    CHECK(second.next() == all[taken]);
    CHECK(second.next() == all[taken + 1]);
  }

  const auto of = [&](char suffix) { return read<pairs>(folder, {suffix}) | fl::prefetch(1); };
  auto run = of('.').infinite();
  run.next();
  CHECK(throws_saying<std::invalid_argument>("pairs.suffix was ., here it is !",
                                             [&] { of('!').infinite({.resume = run.checkpoint()}); }));
}

TEST_CASE("read_files keeps what the library promises") {
  const temporary_folder folder;
  folder.write("a", "W one two");
  folder.write("b", "W");
  folder.write("c", "W three four five six");
  fl::testing::check_source([&] { return read<words>(folder); });
  fl::testing::check_source([&] { return read<pairs>(folder); }, {.has_budget = true});
}

namespace {

/// A file that says itself how many samples it has: "17 " and more.
struct claims {
  std::uint64_t count(std::span<const std::byte> file) const {
    return std::stoull(std::string(text_of(file)));
  }

  std::string at(std::span<const std::byte> file, std::uint64_t number) const {
    return std::string(text_of(file).substr(number, 1));
  }
};

/// Files of whole pairs.
struct whole_pairs : pairs {
  std::uint64_t count(std::uint64_t bytes) const {
    if (bytes % 2 != 0) throw std::runtime_error("not whole pairs");
    return bytes / 2;
  }
};

} // namespace

TEST_CASE("A file whose samples can't be counted is one failure, in order and by position") {
  const temporary_folder folder;
  const std::string bad = folder.write("a", "no number"), huge = folder.write("b", "18446744073709551615 ");
  folder.write("c", "2 ");
  const auto claimed = fl::read_files(folder / "*", claims{});
  CHECK(outcome_of(claimed | fl::global_shuffle()).first.size() == 2);
  const auto in_order = outcome_of(claimed);
  CHECK(in_order.first.size() == 2);
  REQUIRE(in_order.second.size() == 2);
  CHECK(in_order.second[1].starts_with(huge + ": more than 2^40 samples"));

  const temporary_folder of_pairs;
  const std::string half = of_pairs.write("a", "aab");
  of_pairs.write("b", "bb");
  const auto whole = fl::read_files(of_pairs / "*", whole_pairs{});
  for (const auto& [items, failures] : {outcome_of(whole), outcome_of(whole | fl::global_shuffle())}) {
    CHECK(items == texts{"bb."});
    REQUIRE(failures.size() == 1);
    CHECK(failures[0].starts_with(half + ": not whole pairs"));
  }
}

TEST_CASE("A stop ends the search for samples by position") {
  const temporary_folder folder;
  folder.write("a", "W one");
  std::stop_source stopping;
  stopping.request_stop();
  CHECK(throws_saying<std::runtime_error>(
      "stop", [&] { read<words>(folder).source().indexed(stopping.get_token()); }));
}
