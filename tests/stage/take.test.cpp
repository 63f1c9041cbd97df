// SPDX-License-Identifier: MIT
#include <feedline/stage/take.hpp>

#include <feedline/source/generate.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/filter.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>
#include <feedline/stage/shuffle.hpp>
#include <feedline/stage/skip.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/refusing.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using fl::test::collect;
using fl::test::count_to;
using fl::test::run_to_end;
using fl::test::worker_counts;

namespace {

static_assert(fl::stage_for<decltype(fl::take(1)), std::unique_ptr<int>>);
static_assert(std::is_same_v<fl::stage_output_t<decltype(fl::take(1)), short>, short>);

auto endless() {
  return fl::generate([n = 0]() mutable { return std::optional(n++); });
}

} // namespace

TEST_CASE("take emits the first items of each epoch") {
  const auto p = fl::from(count_to(10)) | fl::take(3);
  CHECK(collect(p.finite()) == std::vector{0, 1, 2});
  CHECK(collect(p.finite({.epochs = 2})) == std::vector{0, 1, 2, 0, 1, 2});
  CHECK(collect(p.infinite(), 7) == std::vector{0, 1, 2, 0, 1, 2, 0});
}

TEST_CASE("take emits all items of an epoch that is too short") {
  CHECK(collect((fl::from(count_to(2)) | fl::take(3)).finite({.epochs = 2})) == std::vector{0, 1, 0, 1});
  CHECK(collect((fl::from(count_to(0)) | fl::take(3)).finite()).empty());
  CHECK(collect((fl::from(count_to(5)) | fl::take(0)).finite()).empty());
}

TEST_CASE("take asks a source on its thread for no more items than it emits") {
  int calls = 0;
  const auto p = fl::generate([&] { return std::optional(calls++); }) | fl::take(3);
  CHECK(collect(p.finite()) == std::vector{0, 1, 2});
  CHECK(calls == 3);
}

TEST_CASE("take ends the epoch of a source that would never end") {
  for (const std::size_t workers : worker_counts)
    for (const std::size_t capacity : {0u, 1u}) {
      const auto p = endless() | fl::map([](int i) { return i; }, fl::workers{workers}) | fl::take(5);
      CHECK(collect(p.finite({.epochs = 3, .queue_capacity = capacity})) ==
            std::vector{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4});
      CHECK(collect(p.infinite(), 7) == std::vector{0, 1, 2, 3, 4, 0, 1});
    }
}

TEST_CASE("take ends an endless epoch whose further items a filter drops") {
  const fl::test::watchdog dog("endless, filter, take");
  const auto few = fl::filter([](int i) { return i < 20; });
  CHECK(collect((endless() | few | fl::prefetch(1000) | fl::take(10)).finite()) == count_to(10));
  CHECK(collect((endless() | few | fl::prefetch(1000) | fl::take(10)).infinite(), 12).size() == 12);
  const auto workers = endless() | few | fl::map([](int i) { return i; }, fl::workers{2}) | fl::take(10);
  CHECK(collect(workers.finite({.epochs = 2})).size() == 20);
}

TEST_CASE("items that passed a filter aren't held back until more arrive") {
  const fl::test::watchdog dog("endless, filter");
  const auto p = endless() | fl::filter([](int i) { return i < 20; }) | fl::prefetch(1000);
  CHECK(collect(p.infinite(), 20) == count_to(20));
}

TEST_CASE("take ends an endless epoch downstream of unordered workers") {
  const auto p = endless() | fl::map([](int i) { return i; }, fl::workers{4}, fl::unordered) | fl::take(50);
  CHECK(collect(p.finite({.epochs = 2})).size() == 100);
}

TEST_CASE("take between shuffle and batch leaves whole batches and starts again with each epoch") {
  const auto p = endless() | fl::shuffle({.capacity = 10, .min_fill = 5}) | fl::take(6) | fl::batch(4);
  std::vector<std::size_t> sizes;
  for (const auto& b : p.finite({.epochs = 2})) sizes.push_back(b.size());
  CHECK(sizes == std::vector<std::size_t>{4, 2, 4, 2});
}

TEST_CASE("errors after the items that take needs are never reported, with any number of workers") {
  for (int times = 0; times < 20; ++times)
    for (const std::size_t workers : worker_counts) {
      const auto p = fl::from(count_to(100)) |
                     fl::map(fl::test::refusing{{5, 6, 9, 30}}, fl::workers{workers}) | fl::take(5);
      const auto result = run_to_end(p.finite({.epochs = 2}));
      REQUIRE(result.items == std::vector{0, 1, 2, 3, 4, 0, 1, 2, 3, 4});
      REQUIRE_FALSE(result.failed);
      const auto skipping = run_to_end(p.finite({.epochs = 2, .on_error = fl::on_error::skip}));
      REQUIRE(skipping.items == std::vector{0, 1, 2, 3, 4, 0, 1, 2, 3, 4});
      REQUIRE(skipping.skipped.empty());
    }
}

TEST_CASE(
    "an error of the source after the items that take needs is never reported, with any queues in between") {
  for (int times = 0; times < 20; ++times) {
    const auto p = fl::from(fl::test::numbers(20, {7, 1'000'007})) | fl::prefetch(3) | fl::take(5);
    const auto result = run_to_end(p.finite({.epochs = 3}));
    REQUIRE(result.items.size() == 15);
    REQUIRE_FALSE(result.failed);
    const auto skipping = run_to_end(p.finite({.on_error = fl::on_error::skip}));
    REQUIRE(skipping.items == count_to(5));
    REQUIRE(skipping.skipped.empty());
  }
}

TEST_CASE("take doesn't count a failed item") {
  const auto p = fl::from(count_to(10)) | fl::map(fl::test::refusing{{1}}) | fl::take(3);
  const auto result = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(result.items == std::vector{0, 2, 3});
  CHECK(result.skipped_indices() == std::vector<std::uint64_t>{1});
  CHECK(run_to_end(p.finite()).failed->index == 1);
}

TEST_CASE("A run that nothing of an epoch has reached take(0) in resumes with the failure that ended it") {
  const auto p = fl::from(count_to(9)) |
                 fl::map([](int n) { return n == 6 ? throw fl::test::unlucky(n) : n; }) | fl::skip(100) |
                 fl::take(0) | fl::batch(1);
  auto loader = p.finite({.on_error = fl::on_error::skip, .failure_limit = 0});
  CHECK_THROWS_AS(loader.next(), fl::pipeline_error);
  auto resumed = p.finite({.resume = loader.checkpoint()});
  CHECK_THROWS_AS(resumed.next(), fl::pipeline_error);
}
