// SPDX-License-Identifier: MIT
#include <feedline/source/concat.hpp>

#include <feedline/source/generate.hpp>
#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/lines.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/shuffle.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/leave_and_resume.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

using ints = std::vector<int>;
using range = decltype(fl::from(ints()));

static_assert(std::is_same_v<decltype(fl::concat(range(fl::from(ints())), numbers(1)))::item, int>);
static_assert(fl::indexed_source<
              std::remove_cvref_t<decltype(fl::concat(fl::from(ints()), fl::from(ints())).source())>>);
static_assert(
    !fl::indexed_source<std::remove_cvref_t<decltype(fl::concat(fl::from(ints()), numbers(1)).source())>>);

struct indexed_item {
  std::uint64_t index;
  int value;

  friend auto operator<=>(const indexed_item&, const indexed_item&) = default;
};

constexpr auto with_index = [](int n, fl::context& c) { return indexed_item{c.index, n}; };

constexpr std::uint64_t in_part(std::uint64_t part, std::uint64_t index) { return part << 56 | index; }

/// A source whose start fails.
struct unstartable {
  void start_epoch(const fl::epoch&) { throw unlucky(0); }

  std::optional<int> next() { return 1; }
};

/// A source with one sample that has this index.
struct far_away {
  std::uint64_t far;
  bool given = false;

  std::optional<int> next() { return std::exchange(given, true) ? std::nullopt : std::optional(7); }

  std::uint64_t index() const { return far; }
};

ints values_of(const std::vector<indexed_item>& items) {
  ints values;
  for (const indexed_item& item : items) values.push_back(item.value);
  return values;
}

} // namespace

TEST_CASE(
    "concat yields the samples of one source after another, with the number of the source in the index") {
  const auto p = fl::concat(fl::from(ints{1, 2}), fl::from(ints()), fl::from(ints{3})) | fl::map(with_index);
  CHECK(collect(p.finite()) ==
        std::vector<indexed_item>{{in_part(0, 0), 1}, {in_part(0, 1), 2}, {in_part(2, 0), 3}});
  CHECK(values_of(collect(p.infinite(), 5)) == ints{1, 2, 3, 1, 2});
}

TEST_CASE("a concat of empty sources yields nothing, and an infinite run over it is an error") {
  const auto p = fl::concat(fl::from(ints()), fl::from(ints())) | fl::map(with_index);
  CHECK(collect(p.finite()).empty());
  CHECK(throws_saying<fl::pipeline_error>("no sample", [&] { collect(p.infinite()); }));
}

TEST_CASE("errors of concat's sources keep their positions, and a sample's origin is that of its source") {
  const auto p =
      fl::concat(numbers(3, {1}), numbers(2), numbers(2, {0})) | fl::map([](int n, fl::context& c) {
        if (c.index == in_part(1, 1)) throw unlucky(n);
        return with_index(n, c);
      });
  const auto result = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(result.items == std::vector<indexed_item>{
                            {in_part(0, 0), 0}, {in_part(0, 2), 2}, {in_part(1, 0), 0}, {in_part(2, 1), 1}});
  REQUIRE(result.skipped.size() == 3);
  CHECK(result.skipped[0].stage == "concat");
  CHECK(result.skipped[1].origin == "number 1");
  CHECK(result.skipped[2].message == "unlucky 0");
  const auto failed = run_to_end(p.finite());
  REQUIRE(failed.failed);
  CHECK(failed.failed->message == "unlucky 1");
}

TEST_CASE("a source that can't start is left out of a concat after its error") {
  const auto p =
      fl::concat(fl::from(ints{1}), fl::from(unstartable()), fl::from(ints{2})) | fl::map(with_index);
  const auto result = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(values_of(result.items) == ints{1, 2});
  CHECK(result.skipped.size() == 1);
}

TEST_CASE("an index that needs more than 56 bits is a failure of that sample") {
  constexpr std::uint64_t most = (std::uint64_t{1} << 56) - 1;
  const auto p = fl::concat(far_away{most}, far_away{most + 1}, far_away{0}) | fl::map(with_index);
  const auto result = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(result.items == std::vector<indexed_item>{{in_part(0, most), 7}, {in_part(2, 0), 7}});
  REQUIRE(result.skipped.size() == 1);
  CHECK(result.skipped[0].message.find("56 bits") != std::string::npos);
}

TEST_CASE("equal shuffled sources have different orders, which differ in each epoch") {
  const auto source = fl::from(count_to(100)) | fl::global_shuffle();
  const auto p = fl::concat(source, source) | fl::map(with_index);
  const auto all = values_of(collect(p.finite({.seed = 3, .epochs = 2})));
  REQUIRE(all.size() == 400);
  std::vector<ints> orders;
  for (auto at = all.begin(); at != all.end(); at += 100) {
    orders.emplace_back(at, at + 100);
    ints sorted = orders.back();
    std::sort(sorted.begin(), sorted.end());
    CHECK(sorted == count_to(100));
  }
  std::sort(orders.begin(), orders.end());
  CHECK(std::adjacent_find(orders.begin(), orders.end()) == orders.end());
}

TEST_CASE("global_shuffle covers all sources of a concat of indexed ones") {
  const auto p = fl::concat(fl::from(count_to(40)), fl::from(ints()), fl::from(ints{100, 101, 102})) |
                 fl::global_shuffle() | fl::map(with_index);
  auto items = collect(p.finite({.seed = 1}));
  CHECK_FALSE(std::is_sorted(items.begin(), items.end()));
  std::sort(items.begin(), items.end());
  REQUIRE(items.size() == 43);
  CHECK(items[39] == indexed_item{in_part(0, 39), 39});
  CHECK(items[40] == indexed_item{in_part(2, 0), 100});
  CHECK(items[42] == indexed_item{in_part(2, 2), 102});
}

TEST_CASE("a run over a concat can't be resumed over a different one") {
  const auto run = [](ints second, const std::optional<fl::checkpoint>& resume) {
    return (fl::concat(fl::from(ints{1, 2}), fl::from(std::move(second))) | fl::map(with_index))
        .finite({.resume = resume});
  };
  auto loader = run({3, 4}, {});
  loader.next();
  const auto checkpoint = loader.checkpoint();
  CHECK(values_of(collect(run({3, 4}, checkpoint))) == ints{2, 3, 4});
  CHECK(throws_saying<std::invalid_argument>("has changed", [&] { run({3, 5}, checkpoint); }));
  CHECK(throws_saying<std::invalid_argument>("has changed", [&] { run({3, 4, 5}, checkpoint); }));
}

TEST_CASE("a source that was added to a concat is used from the next epoch on") {
  const auto first = fl::from(ints{1, 2}), second = fl::from(ints{3, 4}), third = fl::from(ints{5});
  const auto before = fl::concat(first, second) | fl::map(with_index);
  const auto after = fl::concat(first, second, third) | fl::map(with_index);
  auto loader = before.finite({.epochs = 2});
  loader.next();
  const auto checkpoint = loader.checkpoint();
  CHECK(throws_saying<std::invalid_argument>(
      "has grown", [&] { static_cast<void>(after.finite({.epochs = 2, .resume = checkpoint})); }));
  CHECK(values_of(collect(after.finite({.epochs = 2, .resume = checkpoint, .allow_grown_data = true}))) ==
        ints{2, 3, 4, 1, 2, 3, 4, 5});
}

TEST_CASE("Resumed: a concat of sources with and without a state") {
  const temporary_folder folder;
  for (int file = 0; file < 5; ++file) {
    std::string text;
    for (int i = 0; i < 4 * file; ++i) text += std::to_string(100 * file + i) + "\n";
    folder.write(std::to_string(file), text);
  }
  std::vector<std::string> elements;
  for (int i = 0; i < 60; ++i) elements.push_back(std::to_string(10'000 + i));
  // Has no state().
  const auto made = [](int n, int size) {
    return fl::generate([n, size, i = 0]() mutable {
      if (++i % 7 == 0 && i < size) throw unlucky(i);
      return i <= size ? std::optional(std::to_string(1000 * n + i)) : std::nullopt;
    });
  };
  leave_and_resume("concat", 30, [&](draw& d, const circumstances& c) {
    const auto size = static_cast<int>(d(0, 30));
    return fl::concat(made(1, size), fl::from(elements) | fl::global_shuffle(), fl::lines({folder / "?"}),
                      made(2, size)) |
           fl::shuffle({.capacity = d(1, 30)}) |
           fl::map([](std::string s) { return s + "!"; }, fl::workers{c.workers}) | fl::batch(d(1, 6));
  });
}

TEST_CASE("Resumed: a concat that is shuffled as a whole") {
  leave_and_resume("shuffled concat", 30, [&](draw& d, const circumstances& c) {
    return fl::concat(fl::from(count_to(static_cast<int>(d(0, 50)))), fl::from(count_to(30))) |
           fl::global_shuffle() | fl::map([](int n) { return n; }, fl::workers{c.workers}) |
           fl::shuffle({.capacity = d(1, 30)}) | fl::batch(d(1, 6));
  });
}
