// SPDX-License-Identifier: MIT
#include <feedline/async/async_flat_map.hpp>

#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/shuffle.hpp>
#include <feedline/stage/take.hpp>
#include <feedline/testing.hpp>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
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

using yielding = std::function<async_generator<int>(int, async_context&)>;

/// Yields i * 100, i * 100 + 1, … : `i % 7` values, some of them after a pause.
async_generator<int> some(int i, async_context& c) {
  for (int k = 0; k < i % 7; ++k) {
    if (c.random.chance(0.3)) co_await random_pause(c);
    co_yield i * 100 + k;
  }
}

/// As some(), but fails for some items after two values.
async_generator<int> some_fail(int i, async_context& c) {
  for (int k = 0; k < i % 7; ++k) {
    if (c.random.chance(0.3)) co_await random_pause(c);
    if (i % 10 == 5 && k == 2) throw std::runtime_error("broken");
    co_yield i * 100 + k;
  }
}

/// Yields vectors of 0 to 399 bytes.
async_generator<std::vector<char>> growing(int, async_context&) {
  for (std::size_t k = 0; k < 400; ++k) co_yield std::vector<char>(k);
}

/// Emits two items in a call.
struct pairs {
  using output = int;

  void operator()(int i, auto& emit) {
    emit(i);
    emit(i + 1000);
  }
};

std::vector<int> some_of_each(int count) {
  std::vector<int> all;
  for (int i = 0; i < count; ++i)
    for (int k = 0; k < i % 7; ++k) all.push_back(i * 100 + k);
  return all;
}

} // namespace

TEST_CASE("async_flat_map gives all values of all items in order") {
  const auto in_flight = GENERATE(as<std::size_t>(), 1, 2, 100);
  const auto ahead = GENERATE(as<std::size_t>(), 1, 2, 3, 100);
  const auto threads = GENERATE(as<std::size_t>(), 1, 3);
  const int count = fl::test::rounds(200);
  const auto p = fl::from(count_to(count)) | fl::async_flat_map(yielding(some), fl::in_flight{in_flight},
                                                                fl::ahead{ahead}, fl::threads{threads});
  CHECK(collect(p.finite()) == some_of_each(count));
}

TEST_CASE("async_flat_map keeps the promises of a stage") {
  fl::testing::check_options options;
  options.places = fl::test::rounds(20);
  fl::testing::check_stage([] { return fl::async_flat_map(some, fl::in_flight{4}, fl::ahead{2}); },
                           count_to(20), options);
}

TEST_CASE("A stage upstream of async_flat_map may emit several items in a call") {
  const fl::test::watchdog guard("several items in a call before generators");

  const auto five = [](int i) -> async_generator<int> {
    for (int k = 0; k < 5; ++k) co_yield i + k;
  };
  auto loader =
      (fl::from(count_to(20)) | pairs{} | fl::async_flat_map(five, fl::in_flight{1}, fl::ahead{1})).finite();
  CHECK(collect(loader).size() == 200);
}

TEST_CASE("A coroutine of async_flat_map pauses when enough of its values wait") {
  const fl::test::watchdog guard("pauses of generators");
  std::atomic<int> yielded{0};
  const auto endless = [&](int i) -> async_generator<int> {
    for (int k = 0;; ++k) {
      ++yielded;
      co_yield i + k;
    }
  };
  auto loader =
      (fl::from(count_to(1)) | fl::async_flat_map(endless, fl::ahead{10}) | fl::take(1000)).finite();
  CHECK(collect(loader) == count_to(1000));
  loader.stop();
  // What waits in the queue after the stage was yielded too.
  CHECK(yielded.load() >= 1000);
  CHECK(yielded.load() < 100'000);
}

TEST_CASE("A failure of async_flat_map follows the values before it") {
  const auto p =
      fl::from(count_to(10)) | fl::async_flat_map(yielding(some_fail), fl::in_flight{4}, fl::name{"rows"});
  SECTION("and ends the run by default") {
    const auto got = run_to_end(p.finite());
    auto expected = some_of_each(5);
    expected.insert(expected.end(), {500, 501});
    CHECK(got.items == expected);
    REQUIRE(got.failed);
    CHECK(fl::to_string(*got.failed) == "async_flat_map `rows` failed on sample 5: broken");
  }
  SECTION("or leaves out the rest of the item's") {
    const auto got = run_to_end(p.finite({.on_error = fl::on_error::skip}));
    CHECK(got.items.size() == some_of_each(10).size() - 3);
    CHECK(got.skipped_indices() == std::vector<std::uint64_t>{5});
  }
  SECTION("also if the function throws before it returns a coroutine") {
    const yielding refuse = [](int i, async_context& c) -> async_generator<int> {
      if (i == 3) throw std::runtime_error("at once");
      return some(i, c);
    };
    const auto got = run_to_end((fl::from(count_to(10)) | fl::async_flat_map(refuse)).finite());
    CHECK(got.items == some_of_each(3));
    REQUIRE(got.failed);
    CHECK(got.failed->message == "at once");
  }
  SECTION("also if a value is larger than max_item_bytes") {
    const auto got =
        run_to_end((fl::from(count_to(1)) | fl::async_flat_map(growing, fl::max_item_bytes{200})).finite());
    REQUIRE(got.failed);
    CHECK(got.failed->stage == "async_flat_map");
    CHECK(!got.items.empty());
  }
}

TEST_CASE("A function of async_flat_map that returns no coroutine fails") {
  const yielding moves_it_away = [](int i, async_context&) {
    auto made = [](int n) -> async_generator<int> { co_yield n; }(i);
    if (i == 5) const async_generator<int> elsewhere(std::move(made));
    return made;
  };
  const auto got = run_to_end((fl::from(count_to(20)) | fl::async_flat_map(moves_it_away)).finite());
  CHECK(got.items == count_to(5));
  REQUIRE(got.failed);
  CHECK(got.failed->message == "the function returned no coroutine: what it returned had been moved from");
}

TEST_CASE("The values of async_flat_map are parts of their sample") {
  auto loader = (fl::from(count_to(4)) | fl::async_flat_map(some) | fl::batch(100)).finite();
  const auto batch = loader.next();
  REQUIRE(batch);
  REQUIRE(batch->size() == 6);
  CHECK(batch->ids()[0].index == 1);
  CHECK(batch->ids()[3].index == 3);
  CHECK(batch->ids()[4].index == 3);
  CHECK(batch->ids()[4].sub_index == 1);
}

TEST_CASE("A coroutine of async_flat_map may wait for values, and yield what can only be moved") {
  const auto read = [](std::unique_ptr<int>& p, async_context& c) -> async_generator<std::unique_ptr<int>> {
    const auto twice = [](int i, async_context& context) -> asio::awaitable<int> {
      co_await random_pause(context);
      co_return 2 * i;
    };
    for (int k = 0; k < 3; ++k) co_yield std::make_unique<int>(co_await twice(*p + k, c));
  };
  auto loader = (fl::from(count_to(10)) | fl::map([](int i) { return std::make_unique<int>(i); }) |
                 fl::async_flat_map(read, fl::ahead{1}))
                    .finite();
  for (int i = 0; i < 10; ++i)
    for (int k = 0; k < 3; ++k) {
      const auto p = loader.next();
      REQUIRE(p);
      CHECK(**p == 2 * (i + k));
    }
  CHECK(!loader.next());
}

TEST_CASE("A stop ends the coroutines of async_flat_map, whether they wait or have paused") {
  const fl::test::watchdog guard("a stop of generators");
  fl::test::lifetimes alive;
  std::atomic<int> begun{0};
  const yielding wait = [&](int i, async_context& c) -> async_generator<int> {
    const fl::test::counted_item frame(alive, i);
    ++begun;
    for (int k = 0; k < i % 20; ++k) co_yield k;
    co_await wait_for_cancellation(c);
  };
  for (std::size_t taken = 0; taken < 1; ++taken) {
    auto loader = (fl::from(count_to(1000)) |
                   fl::async_flat_map(wait, fl::in_flight{200}, fl::ahead{10}, fl::threads{2}))
                      .infinite();
    while (begun.load() < 200) std::this_thread::yield();
    loader.stop();
    CHECK(!loader.next());
  }
  CHECK(alive.live() == 0);
}

TEST_CASE("async_flat_map ends a stop at any moment, with nothing left behind") {
  const fl::test::watchdog guard("stops of generators at any moment");
  fl::test::lifetimes alive;
  const auto hold = [&](int i, async_context& c) -> async_generator<fl::test::counted_item> {
    for (int k = 0; k < i % 7; ++k) {
      fl::test::counted_item made(alive, i);
      if (c.random.chance(0.3)) co_await random_pause(c);
      co_yield std::move(made);
    }
  };
  for (std::size_t taken = 0; taken < 40; ++taken) {
    auto loader =
        (fl::from(count_to(50)) | fl::async_flat_map(hold, fl::in_flight{8}, fl::ahead{2}, fl::threads{2}))
            .infinite();
    collect(loader, taken);
    if (taken % 2 == 0) loader.stop();
  }
  CHECK(alive.live() == 0);
}

TEST_CASE("A coroutine of async_flat_map that goes on after its cancellation is ended at its next step") {
  const fl::test::watchdog guard("a generator that ignores its cancellation");
  std::atomic<int> begun{0}, yields{0};
  const yielding stubborn = [&](int, async_context& c) -> async_generator<int> {
    ++begun;
    for (;;) {
      try {
        co_await wait_for_cancellation(c);
      } catch (const std::system_error&) {
      }
      co_yield 1;
      ++yields;
    }
  };
  auto loader = (fl::from(count_to(10)) | fl::async_flat_map(stubborn)).finite();
  while (begun.load() < 10) std::this_thread::yield();
  loader.stop();
  CHECK(!loader.next());
  CHECK(yields.load() == 0);
}

TEST_CASE("A run with async_flat_map is resumed exactly") {
  fl::test::leave_and_resume("async_flat_map", 10, [](fl::test::draw& d, const fl::test::circumstances& c) {
    return fl::from(count_to(static_cast<int>(d(2, 40)))) |
           fl::map([](int i) { return i; }, fl::workers{c.workers}) |
           fl::async_flat_map(some_fail, fl::in_flight{c.queue}, fl::ahead{c.workers},
                              fl::threads{c.workers}) |
           fl::shuffle({.capacity = d(1, 20)}) | fl::batch(d(1, 7));
  });
}

TEST_CASE("The memory plan counts the values that wait in async_flat_map") {
  const auto bytes = [](std::size_t ahead) {
    return (fl::from(count_to(10)) |
            fl::async_flat_map(growing, fl::in_flight{10}, fl::ahead{ahead}, fl::max_item_bytes{100'000}))
        .memory()
        .bytes()
        .value();
  };
  const std::size_t more = bytes(11) - bytes(1);
  CHECK(more >= 10'000'000); // 10 more for each in flight
  CHECK(more <= 15'000'000);
}

TEST_CASE("async_flat_map refuses options out of range") {
  CHECK_THROWS_WITH(fl::async_flat_map(some, fl::ahead{0}),
                    "feedline::ahead: 0 requested, but it must be 1 to 65536");
  CHECK_THROWS_WITH(fl::async_flat_map(some, fl::in_flight{0}),
                    "feedline::in_flight: 0 requested, but it must be 1 to 65536");
}
