// SPDX-License-Identifier: MIT
#include <feedline/async/async_source.hpp>

#include <feedline/async/async_map.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/shuffle.hpp>
#include <feedline/stage/take.hpp>
#include <feedline/testing.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/coroutines.hpp"
#include "support/leave_and_resume.hpp"
#include "support/lifetimes.hpp"
#include "support/outcome.hpp"
#include "support/rounds.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using fl::async_context;
using fl::async_generator;
using fl::test::collect;
using fl::test::count_to;
using fl::test::random_pause;
using fl::test::run_to_end;
using fl::test::wait_for_cancellation;

namespace {

using yielding = std::function<async_generator<int>(fl::epoch, async_context&)>;

const auto same = [](int i) { return i; };
const auto size = [](const std::vector<char>& v) { return v.size(); };

/// Yields 0 to `count` - 1.
auto numbers(int count) {
  return [count](const fl::epoch&, async_context& c) -> async_generator<int> {
    for (int i = 0; i < count; ++i) {
      if (c.random.chance(0.2)) co_await random_pause(c);
      co_yield i;
    }
  };
}

} // namespace

TEST_CASE("async_source yields the values of a coroutine, in each epoch") {
  const auto ahead = GENERATE(as<std::size_t>(), 1, 2, 16, 1000);
  const auto p = fl::async_source(numbers(100), fl::ahead{ahead}) | fl::batch(30);
  std::vector<int> all;
  auto loader = p.finite({.epochs = 2});
  for (const auto& batch : loader) all.insert(all.end(), batch.values().begin(), batch.values().end());
  auto expected = count_to(100);
  expected.insert(expected.end(), expected.begin(), expected.begin() + 100);
  CHECK(all == expected);
}

TEST_CASE("async_source keeps the promises of a source") {
  fl::testing::check_options options;
  options.places = fl::test::rounds(20);
  fl::testing::check_source([] { return fl::async_source(numbers(20), fl::ahead{3}); }, options);
}

TEST_CASE("async_source works with an empty coroutine and without a context") {
  const auto nothing = [](fl::epoch) -> async_generator<int> { co_return; };
  CHECK(collect((fl::async_source(nothing) | fl::batch(10)).finite()).empty());
  const auto epoch_number = [](fl::epoch e) -> async_generator<std::uint32_t> { co_yield e.number; };
  auto loader =
      (fl::async_source(epoch_number) | fl::map([](std::uint32_t e) { return e; })).finite({.epochs = 3});
  CHECK(collect(loader) == std::vector<std::uint32_t>{0, 1, 2});
}

TEST_CASE("A failure of async_source follows the values before it") {
  const yielding breaks = [](fl::epoch, async_context& c) -> async_generator<int> {
    for (int i = 0; i < 7; ++i) co_yield i;
    co_await random_pause(c);
    throw std::runtime_error("cable cut");
  };
  const auto p = fl::async_source(breaks) | fl::map(same);
  const auto got = run_to_end(p.finite());
  CHECK(got.items == count_to(7));
  REQUIRE(got.failed);
  CHECK(fl::to_string(*got.failed) == "async_source failed after 7 samples of epoch 0: cable cut");
  const auto skipped = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(skipped.items == count_to(7));
  CHECK(skipped.skipped.size() == 1);
}

TEST_CASE("A value of async_source that is ready doesn't wait for the next one") {
  const fl::test::watchdog guard("a slow source");
  const yielding slow = [](fl::epoch, async_context& c) -> async_generator<int> {
    for (int i = 0; i < 3; ++i) co_yield i;
    co_await wait_for_cancellation(c);
  };
  auto loader = (fl::async_source(slow) | fl::map(same)).finite();
  CHECK(collect(loader, 3) == count_to(3));
}

TEST_CASE("A stop ends the coroutine of async_source") {
  const fl::test::watchdog guard("a stop of a coroutine source");
  fl::test::lifetimes alive;
  const yielding wait = [&](fl::epoch, async_context& c) -> async_generator<int> {
    const fl::test::counted_item frame(alive, 1);
    for (int i = 0; i < 5; ++i) co_yield i;
    co_await wait_for_cancellation(c);
  };
  const yielding endless = [&](fl::epoch, async_context&) -> async_generator<int> {
    const fl::test::counted_item frame(alive, 1);
    for (int i = 0;; ++i) co_yield i;
  };
  for (int n = 0; n < 20; ++n) {
    auto first = (fl::async_source(wait) | fl::map(same)).infinite();
    CHECK(collect(first, 5) == count_to(5));
    auto second = (fl::async_source(endless) | fl::map(same)).infinite();
    CHECK(collect(second, 100) == count_to(100));
    if (n % 2 == 0) first.stop();
  }
  auto enough = (fl::async_source(endless) | fl::take(10)).finite({.epochs = 2});
  CHECK(collect(enough).size() == 20);
  enough.stop();
  CHECK(alive.live() <= 1); // that of `enough`, which still exists
}

TEST_CASE("A run with async_source is resumed exactly") {
  fl::test::leave_and_resume("async_source", 8, [](fl::test::draw& d, const fl::test::circumstances& c) {
    const auto count = static_cast<int>(d(1, 40));
    return fl::async_source(numbers(count), fl::ahead{c.queue}) |
           fl::async_map(
               [](int i, async_context& context) -> asio::awaitable<int> {
                 co_await random_pause(context);
                 co_return i;
               },
               fl::in_flight{c.workers}) |
           fl::shuffle({.capacity = d(1, 20)}) | fl::batch(d(1, 7));
  });
}

TEST_CASE("A source of a coroutine may be assigned to while it runs") {
  const fl::test::watchdog guard("assignment of a running source");
  const auto p = fl::async_source(numbers(100), fl::ahead{2});
  auto running = p.source();
  running.start_epoch({});
  CHECK(running.next() == 0);
  auto other = p.source();
  other.start_epoch({});
  running = std::move(other);
  CHECK(running.next() == 0);
  CHECK(running.next() == 1);
}

TEST_CASE("async_source knows its memory") {
  const auto vectors = [](fl::epoch) -> async_generator<std::vector<char>> {
    co_yield std::vector<char>(10);
  };
  const auto known = fl::async_source(vectors, fl::ahead{100}, fl::max_item_bytes{1'000'000}) | fl::map(size);
  REQUIRE(known.memory().bytes());
  CHECK(*known.memory().bytes() >= 100'000'000);
  CHECK(!(fl::async_source(vectors) | fl::map(size)).memory().bytes());
  CHECK_THROWS_WITH(fl::async_source(vectors, fl::ahead{0}),
                    "feedline::ahead: 0 requested, but it must be 1 to 65536");
  const auto large = run_to_end((fl::async_source(vectors, fl::max_item_bytes{1}) | fl::map(size)).finite());
  CHECK(large.failed);
}
