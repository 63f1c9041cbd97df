// SPDX-License-Identifier: MIT
#include <feedline/stage/tap.hpp>

#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>

#include <atomic>
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

constexpr auto ignore = [](const auto&) {};

static_assert(fl::stage_for<decltype(fl::tap(ignore)), std::unique_ptr<int>>);
static_assert(std::is_same_v<fl::stage_output_t<decltype(fl::tap(ignore)), short>, short>);
static_assert(fl::stage_for<decltype(fl::tap([](int, fl::context&) {})), int>);
static_assert(!fl::stage_for<decltype(fl::tap([](int& i) { ++i; })), int>);

} // namespace

TEST_CASE("tap shows each item to its function and emits it in order, with any number of workers") {
  for (const std::size_t workers : worker_counts) {
    std::atomic<int> sum = 0;
    const auto p = fl::from(count_to(1000)) | fl::tap([&](int i) { sum += i; }, fl::workers{workers});
    CHECK(collect(p.finite()) == count_to(1000));
    CHECK(sum == 499'500);
  }
}

TEST_CASE("tap ignores what its function returns, and shows move-only items") {
  fl::test::lifetimes all;
  std::vector<int> seen;
  const auto p = fl::from(count_to(3)) | fl::map([&](int i) { return fl::test::counted_item(all, i); }) |
                 fl::tap([&](const fl::test::counted_item& item) { return seen.emplace_back(item.value()); });
  {
    auto loader = p.finite();
    CHECK(loader.next().value().value() == 0);
    CHECK(loader.next().value().value() == 1);
    CHECK(loader.next().value().value() == 2);
    CHECK_FALSE(loader.next());
  }
  CHECK(seen == count_to(3));
  CHECK(all.live() == 0);
}

TEST_CASE("tap's context has index and epoch, across epochs") {
  std::vector<std::pair<std::uint32_t, std::uint64_t>> seen;
  const auto p =
      fl::from(count_to(2)) | fl::tap([&](int, fl::context& c) { seen.emplace_back(c.epoch, c.index); });
  CHECK(collect(p.finite({.epochs = 2})).size() == 4);
  CHECK(seen == std::vector<std::pair<std::uint32_t, std::uint64_t>>{{0, 0}, {0, 1}, {1, 0}, {1, 1}});
}

TEST_CASE("an item for which tap's function throws isn't emitted") {
  for (const std::size_t workers : worker_counts) {
    const auto p =
        fl::from(count_to(50)) | fl::tap(fl::test::refusing{{20}}, fl::workers{workers}, fl::name{"look"});
    const auto result = run_to_end(p.finite());
    CHECK(result.items == count_to(20));
    REQUIRE(result.failed);
    CHECK(result.failed->stage == "tap `look`");
    CHECK(result.failed->index == 20);

    const auto skipping = run_to_end(p.finite({.on_error = fl::on_error::skip}));
    CHECK(skipping.items.size() == 49);
    CHECK(skipping.skipped_indices() == std::vector<std::uint64_t>{20});
  }
}

TEST_CASE("tap of an empty source calls nothing, and a loop over it may be left early") {
  std::atomic<int> seen = 0;
  const auto tapped = fl::tap([&](int) { ++seen; }, fl::workers{2});
  CHECK(collect((fl::from(std::vector<int>()) | tapped).finite()).empty());
  CHECK(seen == 0);
  CHECK(collect((fl::from(count_to(3)) | tapped).infinite(), 5) == std::vector{0, 1, 2, 0, 1});
  CHECK(seen >= 5);
}
