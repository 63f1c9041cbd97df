// SPDX-License-Identifier: MIT
#include <feedline/source/generate.hpp>

#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>
#include <feedline/stage/take.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/refusing.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using fl::test::collect;
using fl::test::count_to;
using fl::test::run_to_end;

namespace {

auto numbers(int size) {
  return fl::generate([n = 0, size]() mutable { return n < size ? std::optional(n++) : std::nullopt; });
}

/// Index and random number of each of ten calls per epoch.
auto draws() {
  return fl::generate([](fl::context& c) {
    return c.index < 10 ? std::optional(std::pair(c.index, c.random())) : std::nullopt;
  });
}

static_assert(std::is_same_v<decltype(numbers(1))::item, int>);
static_assert(
    std::is_same_v<decltype(fl::generate([] { return std::optional<std::unique_ptr<int>>(); }))::item,
                   std::unique_ptr<int>>);

} // namespace

TEST_CASE("generate yields the samples of its function until it returns nothing") {
  CHECK(collect((numbers(4) | fl::prefetch(2)).finite()) == count_to(4));
}

TEST_CASE("generate calls a fresh copy of its function in each epoch of each run") {
  const auto p = numbers(3) | fl::prefetch(2);
  CHECK(collect(p.finite({.epochs = 2})) == std::vector{0, 1, 2, 0, 1, 2});
  CHECK(collect(p.infinite(), 7) == std::vector{0, 1, 2, 0, 1, 2, 0});
  CHECK(collect(p.finite()) == count_to(3));
}

TEST_CASE("generate yields items that can only be moved") {
  const auto p = fl::generate([n = 0]() mutable {
                   return n < 3 ? std::optional(std::make_unique<int>(n++)) : std::nullopt;
                 }) |
                 fl::map([](std::unique_ptr<int> item) { return *item; });
  CHECK(collect(p.finite()) == count_to(3));
}

TEST_CASE("generate's context has the sample's index, and random numbers by seed, epoch and index") {
  const auto p = draws() | fl::prefetch(2);
  const auto once = collect(p.finite({.seed = 5, .epochs = 2}));
  REQUIRE(once.size() == 20);
  std::set<std::uint64_t> different;
  for (std::size_t i = 0; i < 20; ++i) {
    CHECK(once[i].first == i % 10);
    different.insert(once[i].second);
  }
  CHECK(different.size() == 20);
  CHECK(collect(p.finite({.seed = 5, .epochs = 2})) == once);
  CHECK(collect(p.infinite({.seed = 5}), 20) == once);
  CHECK(collect(p.finite({.seed = 6, .epochs = 2})) != once);
}

TEST_CASE("generate's context has the epoch") {
  const auto p =
      fl::generate([](fl::context& c) { return c.index < 2 ? std::optional(c.epoch) : std::nullopt; }) |
      fl::prefetch(2);
  CHECK(collect(p.finite({.epochs = 2})) == std::vector<std::uint32_t>{0, 0, 1, 1});
}

TEST_CASE("a waiting function of generate can see a stop in its context") {
  std::atomic<bool> waits{false};
  std::atomic<bool> heard{false};
  const auto p = fl::generate([&, given = 0](fl::context& c) mutable {
                   if (given++ == 0) return std::optional(1);
                   waits = true;
                   while (!c.stop.stop_requested()) std::this_thread::yield();
                   heard = true;
                   return std::optional<int>();
                 }) |
                 fl::prefetch(1);
  {
    auto loader = p.finite();
    CHECK(loader.next() == 1);
    while (!waits) std::this_thread::yield();
  }
  CHECK(heard);
}

TEST_CASE("an endless generate yields as many samples as are read") {
  const auto p = fl::generate([n = 0]() mutable { return std::optional(n++); });
  CHECK(collect((p | fl::take(3)).finite()) == count_to(3));
  CHECK(collect((p | fl::prefetch(2)).finite(), 1000) == count_to(1000));
}

TEST_CASE(
    "an exception of generate's function is a failure at its position, and with skip it is called again") {
  const auto p = fl::generate([n = 0, check = fl::test::refusing{{2, 3}}]() mutable {
    return n < 6 ? std::optional(check(n++)) : std::nullopt;
  });
  const auto result = run_to_end((p | fl::prefetch(9)).finite());
  CHECK(result.items == count_to(2));
  REQUIRE(result.failed);
  CHECK(result.failed->stage == "generate");
  const auto skipping = run_to_end((p | fl::prefetch(9)).finite({.on_error = fl::on_error::skip}));
  CHECK(skipping.items == std::vector{0, 1, 4, 5});
  CHECK(skipping.skipped.size() == 2);
}

TEST_CASE("the index of a generated sample counts all calls, including those that threw") {
  const auto indices = [](const auto& p) {
    const auto result = run_to_end(p.finite({.on_error = fl::on_error::skip}));
    REQUIRE(result.items.size() == 1);
    return result.items[0].indices();
  };
  const std::vector<std::uint64_t> expected{0, 1, 3};
  const auto by_state = fl::generate([n = 0, check = fl::test::refusing{{2}}]() mutable {
    return n < 4 ? std::optional(check(n++)) : std::nullopt;
  });
  CHECK(indices(by_state | fl::batch(9)) == expected);
  const auto by_context = fl::generate([](fl::context& c) {
    const int n = static_cast<int>(c.index);
    return n < 4 ? std::optional(fl::test::refusing{{2}}(n)) : std::nullopt;
  });
  CHECK(indices(by_context | fl::batch(9)) == expected);
}

TEST_CASE("a generate without samples ends at once") {
  CHECK(collect((numbers(0) | fl::prefetch(2)).finite({.epochs = 3})).empty());
}

TEST_CASE("the search for a sample that an endless source doesn't have ends") {
  const fl::test::watchdog guard("replay of a missing sample");
  const auto p = fl::generate([n = 0]() mutable {
                   if (n++ == 3) throw std::runtime_error("three");
                   return std::optional(n);
                 }) |
                 fl::prefetch(2);
  CHECK(p.replay(0, {5}) == 6);
  CHECK_FALSE(p.replay(0, {3}));
}
