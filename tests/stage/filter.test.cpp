// SPDX-License-Identifier: MIT
#include <feedline/stage/filter.hpp>

#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/lifetimes.hpp"
#include "support/outcome.hpp"
#include "support/refusing.hpp"

namespace fl = feedline;
using fl::test::collect;
using fl::test::count_to;
using fl::test::run_to_end;
using fl::test::worker_counts;

namespace {

constexpr auto is_odd = [](int i) { return i % 2 != 0; };
constexpr auto is_there = [](const std::unique_ptr<int>& p) { return p != nullptr; };

struct box {
  int weight;
  bool open;

  bool is_heavy() const { return weight > 1; }
};

static_assert(fl::stage_for<decltype(fl::filter(is_odd)), int>);
static_assert(std::is_same_v<fl::stage_output_t<decltype(fl::filter(is_odd)), short>, short>);
static_assert(fl::stage_for<decltype(fl::filter(is_there)), std::unique_ptr<int>>);
static_assert(fl::stage_for<decltype(fl::filter(&box::open)), box>);
static_assert(!fl::stage_for<decltype(fl::filter([](int&) { return true; })), int>);
static_assert(!fl::stage_for<decltype(fl::filter([](int) {})), int>);

auto odd_numbers(int size, std::size_t workers) {
  return fl::from(count_to(size)) | fl::filter(is_odd, fl::workers{workers});
}

} // namespace

TEST_CASE("filter emits the items for which its predicate holds, unchanged and in order") {
  for (const std::size_t workers : worker_counts) {
    const auto items = collect(odd_numbers(5000, workers).finite());
    REQUIRE(items.size() == 2500);
    for (int i = 0; i < 2500; ++i) REQUIRE(items[static_cast<std::size_t>(i)] == 2 * i + 1);
  }
}

TEST_CASE("filter accepts pointers to members of the item as predicates") {
  const auto p = fl::from(std::vector<box>{{1, true}, {2, false}, {3, true}}) | fl::filter(&box::open) |
                 fl::filter(&box::is_heavy) | fl::map(&box::weight);
  CHECK(collect(p.finite()) == std::vector{3});
}

TEST_CASE("filter emits or destroys move-only items") {
  fl::test::lifetimes all;
  {
    const auto p = fl::from(count_to(100)) | fl::map([&](int i) { return fl::test::counted_item(all, i); }) |
                   fl::filter([](const fl::test::counted_item& item) { return item.value() >= 98; });
    auto loader = p.finite();
    CHECK(loader.next()->value() == 98);
    CHECK(loader.next()->value() == 99);
    CHECK_FALSE(loader.next());
    CHECK(all.live() == 0);
  }
}

TEST_CASE("the random numbers of a filter are keyed by the sample, the same with any number of workers") {
  const auto kept = [](std::size_t workers) {
    const auto p = fl::from(count_to(1000)) |
                   fl::filter([](int, fl::context& c) { return c.random.chance(0.5); }, fl::workers{workers});
    return collect(p.finite({.seed = 3, .epochs = 2}));
  };
  const auto items = kept(1);
  CHECK(kept(2) == items);
  CHECK(kept(8) == items);
  CHECK(items.size() > 850);
  CHECK(items.size() < 1150);
}

TEST_CASE("an unordered filter emits the same items") {
  const auto p = fl::from(count_to(2000)) | fl::filter(is_odd, fl::workers{8}, fl::unordered);
  auto items = collect(p.finite());
  std::sort(items.begin(), items.end());
  CHECK(items == collect(odd_numbers(2000, 1).finite()));
}

TEST_CASE("an error in a filter's predicate arrives in the position of its item") {
  for (const std::size_t workers : worker_counts) {
    const auto p = fl::from(count_to(100)) |
                   fl::filter([check = fl::test::refusing{{40}}](int i) { return is_odd(check(i)); },
                              fl::workers{workers}, fl::name{"odd"});
    const auto result = run_to_end(p.finite());
    CHECK(result.items.size() == 20);
    REQUIRE(result.failed);
    CHECK(result.failed->stage == "filter `odd`");
    CHECK(result.failed->index == 40);

    const auto skipping = run_to_end(p.finite({.on_error = fl::on_error::skip}));
    CHECK(skipping.items.size() == 50);
    CHECK(skipping.skipped_indices() == std::vector<std::uint64_t>{40});
  }
}

TEST_CASE("a filter that lets nothing through ends with its input and can be stopped in infinite mode") {
  const auto p = fl::from(count_to(10)) | fl::filter([](int) { return false; }, fl::workers{2});
  CHECK(collect(p.finite({.epochs = 3})).empty());
  auto loader = p.infinite();
  loader.stop();
  CHECK_FALSE(loader.next());
}

TEST_CASE("a filter of an empty source yields nothing") {
  CHECK(collect(odd_numbers(0, 2).finite()).empty());
}

TEST_CASE("filter continues across epochs in infinite mode, and a loop over it may be left early") {
  const auto p = odd_numbers(6, 2);
  CHECK(collect(p.infinite(), 7) == std::vector{1, 3, 5, 1, 3, 5, 1});
}
