// SPDX-License-Identifier: MIT
#include <feedline/source/zip.hpp>

#include <feedline/source/generate.hpp>
#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/lines.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>
#include <feedline/stage/shuffle.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/leave_and_resume.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/temporary_folder.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

using ints = std::vector<int>;
using pairs = std::vector<std::pair<int, int>>;

template <class... Sources>
using item_of = typename decltype(fl::zip(std::declval<Sources>()...))::item;

static_assert(std::is_same_v<item_of<numbers>, std::tuple<int>>);
static_assert(std::is_same_v<item_of<numbers, numbers>, std::pair<int, int>>);
static_assert(
    std::is_same_v<item_of<numbers, decltype(fl::lines({})), numbers>, std::tuple<int, std::string, int>>);
static_assert(
    fl::indexed_source<std::remove_cvref_t<decltype(fl::zip(fl::from(ints()), fl::from(ints())).source())>>);

template <class First, class Second>
auto zipped(First first, Second second) {
  return fl::zip(std::move(first), std::move(second)) | fl::prefetch(4);
}

} // namespace

TEST_CASE("zip combines one sample of each source and ends with the shortest") {
  CHECK(collect(zipped(fl::from(ints{1, 2, 3}), fl::from(ints{4, 5, 6, 7})).finite()) ==
        pairs{{1, 4}, {2, 5}, {3, 6}});
  CHECK(collect(zipped(fl::from(ints{1, 2, 3}), fl::from(ints{4})).finite()) == pairs{{1, 4}});
  CHECK(collect(zipped(fl::from(ints{1, 2, 3}), fl::from(ints())).finite()).empty());
  CHECK(collect(zipped(fl::from(ints{1, 2}), fl::from(ints{4, 5, 6})).infinite(), 3) ==
        pairs{{1, 4}, {2, 5}, {1, 4}});
}

TEST_CASE("zip takes samples that can only be moved") {
  const auto made = fl::generate(
      [n = 0]() mutable { return n < 2 ? std::optional(std::make_unique<int>(n++)) : std::nullopt; });
  int sum = 0;
  for (const auto& [pointer, number] : (fl::zip(made, numbers(5)) | fl::prefetch(2)).finite())
    sum += *pointer + number;
  CHECK(sum == 2);
}

TEST_CASE("the index and the origin of a zipped sample are those of the first source") {
  const auto p =
      fl::zip(numbers(3), fl::from(ints{7, 8, 9})) | fl::map([](std::pair<int, int> item, fl::context& c) {
        if (c.index == 1) throw unlucky(item.second);
        return c.index;
      });
  const auto result = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(result.items == std::vector<std::uint64_t>{0, 2});
  REQUIRE(result.skipped.size() == 1);
  CHECK(result.skipped[0].message == "unlucky 8");
  CHECK(result.skipped[0].origin == "number 1");
}

TEST_CASE("sources of a zip stay in step when one of them throws, or several at once") {
  const auto p = zipped(numbers(6, {1, 4}), numbers(6, {2, 4}));
  const auto result = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(result.items == pairs{{0, 0}, {3, 3}, {5, 5}});
  CHECK(result.skipped.size() == 3);
  CHECK(result.skipped.at(0).stage == "zip");
}

TEST_CASE("an error at the end of another source is ignored, unless it is the reason for that end") {
  const auto ended = run_to_end(zipped(numbers(4, {2}), numbers(2)).finite({.on_error = fl::on_error::skip}));
  CHECK(ended.items.size() == 2);
  CHECK(ended.skipped.empty());

  struct unstartable {
    void start_epoch(const fl::epoch&) { throw unlucky(0); }

    std::optional<int> next() { return 1; }
  };

  const auto unstarted =
      run_to_end(zipped(numbers(4), fl::from(unstartable())).finite({.on_error = fl::on_error::skip}));
  CHECK(unstarted.items.empty());
  CHECK(unstarted.skipped.size() == 1);
}

TEST_CASE("files that correspond to each other stay together in every epoch's order") {
  const temporary_folder folder;
  for (int i = 10; i < 20; ++i) {
    folder.write("a" + std::to_string(i), std::to_string(i) + "\n" + std::to_string(100 + i));
    folder.write("b" + std::to_string(i), std::to_string(i) + "\n" + std::to_string(100 + i));
  }
  const auto p = zipped(fl::lines({folder / "a*"}), fl::lines({folder / "b*"}));
  const auto all = collect(p.finite({.seed = 1, .epochs = 2}));
  CHECK(all.size() == 40);
  CHECK_FALSE(std::is_sorted(all.begin(), all.begin() + 20));
  for (const auto& [a, b] : all) CHECK(a == b);
}

TEST_CASE("a zip of indexed sources can be shuffled as a whole") {
  const auto p =
      fl::zip(fl::from(count_to(50)), fl::from(count_to(60))) | fl::global_shuffle() | fl::prefetch(4);
  auto all = collect(p.finite({.seed = 2}));
  CHECK_FALSE(std::is_sorted(all.begin(), all.end()));
  std::sort(all.begin(), all.end());
  REQUIRE(all.size() == 50);
  for (int i = 0; i < 50; ++i) CHECK(all[static_cast<std::size_t>(i)] == std::pair(i, i));
}

TEST_CASE("a replay with a run's options yields the pairs of that run") {
  const temporary_folder folder;
  std::vector<std::string> first, second;
  for (const char* lines : {"a0\na1\n", "a2\na3\na4\n", "a5\n"})
    first.push_back(folder.write("a" + std::to_string(first.size()), lines));
  for (const char* lines : {"b0\nb1\nb2\n", "b3\n", "b4\nb5\n"})
    second.push_back(folder.write("b" + std::to_string(second.size()), lines));
  const auto p = fl::zip(fl::lines(first), fl::lines(second)) |
                 fl::map([](const std::pair<std::string, std::string>& x) { return x.first + x.second; }) |
                 fl::batch(1);
  const auto check = [&](const auto& options, auto loader) {
    for (int i = 0; i < 6; ++i) {
      const auto batch = loader.next();
      REQUIRE(batch);
      const fl::sample_id id = batch->ids()[0];
      CHECK(p.replay(options, id) == batch->values()[0]);
    }
  };
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    const fl::finite_options once{.seed = seed}, twice{.seed = seed, .epochs = 2};
    const fl::infinite_options for_ever{.seed = seed};
    check(once, p.finite(once));
    check(twice, p.finite(twice));
    check(for_ever, p.infinite(for_ever));
  }
}

TEST_CASE("Resumed: a zip of sources with and without a state") {
  leave_and_resume("zip", 30, [](draw& d, const circumstances& c) {
    const auto bad = static_cast<int>(d(1, 80));
    return fl::zip(fl::from(count_to(static_cast<int>(d(1, 80)))) | fl::global_shuffle(),
                   numbers(80, {3, 8, bad}), fl::from(count_to(100))) |
           fl::shuffle({.capacity = d(1, 30)}) |
           fl::map(
               [](const std::tuple<int, int, int>& t) {
                 return std::get<0>(t) + std::int64_t{1000} * std::get<1>(t) + 5 * std::get<2>(t);
               },
               fl::workers{c.workers}) |
           fl::batch(d(1, 6));
  });
}

TEST_CASE("Resumed: a zip that is shuffled as a whole") {
  leave_and_resume("shuffled zip", 30, [](draw& d, const circumstances& c) {
    return fl::zip(fl::from(count_to(40)), fl::from(count_to(static_cast<int>(d(1, 60))))) |
           fl::global_shuffle() |
           fl::map([](std::pair<int, int> p) { return p.first + p.second; }, fl::workers{c.workers}) |
           fl::shuffle({.capacity = d(1, 30)}) | fl::batch(d(1, 6));
  });
}
