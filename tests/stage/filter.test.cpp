// SPDX-License-Identifier: MIT
#include <feedline/stage/filter.hpp>

#include <feedline/feedline.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/lifetimes.hpp"
#include "support/outcome.hpp"
#include "support/refusing.hpp"
#include "support/watchdog.hpp"

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
    CHECK(loader.next().value().value() == 98);
    CHECK(loader.next().value().value() == 99);
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

namespace {

/// Takes items of an infinite run. Returns the message of its failure; empty if there is none.
template <class Pipeline>
std::string problem_of(const Pipeline& pipeline, int items) {
  try {
    auto loader = pipeline.infinite({.seed = 1});
    for (int i = 0; i < items; ++i)
      if (!loader.next()) return "the run has ended";
  } catch (const fl::pipeline_error& error) {
    return error.what();
  }
  return {};
}

} // namespace

TEST_CASE("A filter that leaves out some epochs by chance doesn't end an infinite run") {
  const fl::test::watchdog guard("empty epochs");
  const auto some = fl::filter([](int, fl::context& c) { return c.random.chance(0.5); });
  const auto source = fl::from(count_to(3));
  const auto maybe = source | some;
  CHECK(problem_of(maybe | fl::prefetch(4), 200).empty());
  CHECK(problem_of(fl::concat(maybe) | fl::prefetch(4), 200).empty());
  CHECK(problem_of(fl::concat(maybe, maybe) | some | fl::prefetch(4), 200).empty());
  CHECK(problem_of(fl::mix(fl::weighted(maybe, 1)) | fl::prefetch(4), 200).empty());
  CHECK(problem_of(fl::mix(fl::weighted(maybe, 1), fl::mix_options{fl::when_one_ends::repeat}) |
                       fl::prefetch(4),
                   200)
            .empty());
  CHECK(problem_of(fl::zip(maybe, source) | fl::prefetch(4), 200).empty());
  CHECK(problem_of(fl::concat(fl::concat(maybe)) | fl::prefetch(4), 200).empty());
}

TEST_CASE("A filter that leaves out everything ends an infinite run with its name") {
  const fl::test::watchdog guard("nothing left");
  const auto none = fl::filter([](int) { return false; }, fl::name{"none"});
  const auto all = fl::filter([](int) { return true; });
  const auto source = fl::from(count_to(50));
  const std::string sentence =
      "it let no sample through in several consecutive epochs, so an infinite run would "
      "never yield anything";
  CHECK(problem_of(source | none | fl::prefetch(4), 1) == "filter `none` failed: " + sentence);
  CHECK(problem_of(source | fl::filter([](int) { return false; }, fl::workers{2}, fl::name{"none"}) |
                       fl::batch(2),
                   1) == "filter `none` failed: " + sentence);
  CHECK(problem_of(source | all | none | fl::shuffle({.capacity = 10}), 1) ==
        "filter and filter `none` failed: " + sentence);
  CHECK(problem_of(fl::concat(source | none) | fl::prefetch(4), 1) ==
        "filter `none` in concat failed: " + sentence);
  CHECK(problem_of(fl::mix(fl::weighted(source | none, 1)) | fl::prefetch(4), 1) ==
        "filter `none` in mix failed: " + sentence);
  CHECK(problem_of(fl::zip(source, source | none) | fl::prefetch(4), 1) ==
        "filter `none` in zip failed: " + sentence);
  CHECK(
      problem_of(fl::concat(fl::from(std::vector<int>())) | fl::prefetch(4), 1) ==
      "concat failed: it yielded no sample in a whole epoch, so an infinite run would never yield anything");
}
