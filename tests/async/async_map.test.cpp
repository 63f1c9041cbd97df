// SPDX-License-Identifier: MIT
#include <feedline/async/async_map.hpp>

#include <feedline/source/generate.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/shuffle.hpp>
#include <feedline/stage/take.hpp>
#include <feedline/testing.hpp>

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/asleep.hpp"
#include "support/catch.hpp"
#include "support/coroutines.hpp"
#include "support/leave_and_resume.hpp"
#include "support/lifetimes.hpp"
#include "support/outcome.hpp"
#include "support/rounds.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace std::chrono_literals;
using fl::async_context;
using fl::test::collect;
using fl::test::count_to;
using fl::test::pause;
using fl::test::random_pause;
using fl::test::run_to_end;
using fl::test::wait_for_cancellation;

namespace {

asio::awaitable<std::string> to_text(int i, async_context& c) {
  co_await random_pause(c);
  co_return std::to_string(i);
}

asio::awaitable<int> same(int i, async_context& c) {
  co_await random_pause(c);
  co_return i;
}

/// As same(), but throws for some.
asio::awaitable<int> same_but_not_5(int i, async_context& c) {
  co_await random_pause(c);
  if (i % 10 == 5) throw std::runtime_error("number " + std::to_string(i));
  co_return i;
}

/// A result of that many bytes.
asio::awaitable<std::vector<char>> as_many_bytes(int i, async_context&) {
  co_return std::vector<char>(static_cast<std::size_t>(i));
}

/// The place of the sample and a random number.
asio::awaitable<std::string> place_and_chance(int, async_context& c) {
  co_await random_pause(c);
  co_return std::to_string(c.epoch) + ":" + std::to_string(c.index) + ":" + std::to_string(c.random());
}

using fetching = std::function<asio::awaitable<int>(int, async_context&)>;
using holding = std::function<asio::awaitable<fl::test::counted_item>(int, async_context&)>;

std::vector<std::string> texts(int count) {
  std::vector<std::string> all;
  for (int i = 0; i < count; ++i) all.push_back(std::to_string(i));
  return all;
}

/// Counts how many coroutines wait at once.
class waiting_count {
 public:
  /// Returns when `count` coroutines have waited at once.
  asio::awaitable<void> wait_for(int count, async_context& c) {
    raise(now_.fetch_add(1) + 1);
    while (peak() < count) co_await pause(c, 1ms);
    co_await random_pause(c);
    --now_;
  }

  int peak() const { return peak_.load(); }

 private:
  void raise(int now) {
    int seen = peak_.load();
    while (seen < now && !peak_.compare_exchange_weak(seen, now)) {
    }
  }

  std::atomic<int> now_{0}, peak_{0};
};

} // namespace

TEST_CASE("async_map gives the results in the order of the items, however long each takes") {
  const auto in_flight = GENERATE(as<std::size_t>(), 1, 2, 3, 64, 2000);
  const auto threads = GENERATE(as<std::size_t>(), 1, 3);
  const auto loader_of = [&](int count) {
    return (fl::from(count_to(count)) |
            fl::async_map(to_text, fl::in_flight{in_flight}, fl::threads{threads}))
        .finite();
  };
  constexpr int count = fl::test::rounds(400, 100); // mostly more than are in flight
  CHECK(collect(loader_of(count)) == texts(count));
  CHECK(collect(loader_of(0)).empty());
  CHECK(collect(loader_of(1)) == texts(1));
}

TEST_CASE("async_map keeps the promises of a stage") {
  fl::testing::check_options options;
  options.places = fl::test::rounds(20);
  fl::testing::check_stage([] { return fl::async_map(to_text, fl::in_flight{4}); }, count_to(20), options);
  options.keeps_all = true;
  fl::testing::check_stage([] { return fl::async_map(same, fl::in_flight{3}, fl::threads{2}); }, count_to(20),
                           options);
}

TEST_CASE("Exactly as many coroutines of async_map wait at once as allowed") {
  const auto count = GENERATE(1, 2, 100, 500);
  const fl::test::watchdog guard("as many in flight as allowed");
  waiting_count waiting;
  const fetching wait = [&](int i, async_context& c) -> asio::awaitable<int> {
    co_await waiting.wait_for(count, c);
    co_return i;
  };
  const auto p = fl::from(count_to(2 * count + 10)) |
                 fl::async_map(wait, fl::in_flight{static_cast<std::size_t>(count)});
  CHECK(collect(p.finite()) == count_to(2 * count + 10));
  CHECK(waiting.peak() == count);
}

TEST_CASE("The function of async_map may be of several kinds") {
  const auto numbers = fl::from(count_to(20));
  SECTION("without a context") {
    CHECK(collect((numbers | fl::async_map([](int i) -> asio::awaitable<int> { co_return 2 * i; }) |
                   fl::map([](int i) {
                     return i / 2;
                   })).finite()) == count_to(20));
  }
  SECTION("a pointer to a function") {
    CHECK(collect((numbers | fl::async_map(&to_text)).finite()) == texts(20));
  }
  SECTION("a function that isn't a coroutine but calls one") {
    CHECK(collect((numbers | fl::async_map([](int i, async_context& c) {
                     return to_text(i, c);
                   })).finite()) == texts(20));
  }
  SECTION("with a reference to the item, which exists as long as the coroutine") {
    const auto read = [](const std::string& text, async_context& c) -> asio::awaitable<std::size_t> {
      co_await random_pause(c);
      co_return text.size();
    };
    CHECK(collect((fl::from(std::vector<std::string>{"", "a", std::string(100, 'b')}) | fl::async_map(read))
                      .finite()) == std::vector<std::size_t>{0, 1, 100});
  }
  SECTION("move-only, with items and results that are move-only and have no default") {
    struct holder {
      explicit holder(std::unique_ptr<int> p) noexcept : value(std::move(p)) {}

      std::unique_ptr<int> value;
    };

    int next = 0;
    auto source = fl::generate([next]() mutable -> std::optional<std::unique_ptr<int>> {
      if (next == 20) return std::nullopt;
      return std::make_unique<int>(next++);
    });
    const auto hold = [own = std::make_unique<int>(100)](std::unique_ptr<int> p,
                                                         async_context& c) -> asio::awaitable<holder> {
      co_await random_pause(c);
      *p += *own;
      co_return holder(std::move(p));
    };
    auto loader =
        (source | fl::async_map(std::move(const_cast<std::remove_const_t<decltype(hold)>&>(hold)))).finite();
    int expected = 100;
    while (auto h = loader.next()) CHECK(*h->value == expected++);
    CHECK(expected == 120);
  }
}

TEST_CASE("The context of async_map has the sample's place and keyed random numbers") {
  const auto run = [&](std::size_t in_flight, std::size_t threads) {
    return collect((fl::from(count_to(50)) |
                    fl::async_map(place_and_chance, fl::in_flight{in_flight}, fl::threads{threads}))
                       .finite({.seed = 3, .epochs = 2}));
  };
  const auto expected = run(1, 1);
  CHECK(expected.at(50).substr(0, 4) == "1:0:");
  CHECK(run(7, 1) == expected);
  CHECK(run(100, 4) == expected);
}

TEST_CASE("A failure of async_map is delivered at the place of its item") {
  const auto p =
      fl::from(count_to(40)) | fl::async_map(fetching(same_but_not_5), fl::in_flight{16}, fl::name{"fetch"});
  SECTION("and ends the run by default") {
    const auto got = run_to_end(p.finite());
    CHECK(got.items == count_to(5));
    REQUIRE(got.failed);
    CHECK(fl::to_string(*got.failed) == "async_map `fetch` failed on sample 5: number 5");
  }
  SECTION("or leaves out the sample") {
    const auto got = run_to_end(p.finite({.on_error = fl::on_error::skip}));
    CHECK(got.items.size() == 36);
    CHECK(got.skipped_indices() == std::vector<std::uint64_t>{5, 15, 25, 35});
    CHECK(fl::to_string(got.skipped.at(1)) == "async_map `fetch` failed on sample 15: number 15");
  }
  SECTION("also if the function throws before it returns a coroutine") {
    const fetching refuse = [](int i, async_context& c) -> asio::awaitable<int> {
      if (i == 5) throw std::runtime_error("at once");
      return same(i, c);
    };
    const auto got = run_to_end((fl::from(count_to(40)) | fl::async_map(refuse)).finite());
    CHECK(got.items == count_to(5));
    REQUIRE(got.failed);
    CHECK(got.failed->message == "at once");
  }
  SECTION("also if the result is larger than max_item_bytes") {
    const auto got = run_to_end(
        (fl::from(count_to(400)) | fl::async_map(as_many_bytes, fl::max_item_bytes{200})).finite());
    REQUIRE(got.failed);
    CHECK(got.failed->stage == "async_map");
    CHECK(got.items.size() == got.failed->index);
  }
}

TEST_CASE("A function of async_map that returns no coroutine fails") {
  const fetching moves_it_away = [](int i, async_context& c) {
    asio::awaitable<int> made = same(i, c);
    if (i == 5) const asio::awaitable<int> elsewhere(std::move(made));
    return made;
  };
  const auto check = [](const auto& pipeline) {
    const auto got = run_to_end(pipeline.finite());
    CHECK(got.items == count_to(5));
    REQUIRE(got.failed);
    CHECK(got.failed->message == "the function returned no coroutine: what it returned had been moved from");
  };
  const auto numbers = fl::from(count_to(20));
  check(numbers | fl::async_map(moves_it_away));
  check(numbers | fl::async_map(moves_it_away, fl::deadline{1h}, fl::retry{.attempts = 1}));
}

TEST_CASE("A stop cancels what the coroutines of async_map wait for") {
  const fl::test::watchdog guard("a stop with 1,000 in flight");
  const auto threads = GENERATE(as<std::size_t>(), 1, 2);
  fl::test::lifetimes alive;
  std::atomic<int> begun{0}, cancelled{0};
  const fetching wait = [&](int i, async_context& c) -> asio::awaitable<int> {
    const fl::test::counted_item frame(alive, i);
    ++begun;
    try {
      co_await wait_for_cancellation(c);
    } catch (const std::system_error& error) {
      if (error.code() == asio::error::operation_aborted) ++cancelled;
      throw;
    }
    co_return i;
  };
  const auto p = fl::from(count_to(3000)) | fl::async_map(wait, fl::in_flight{1000}, fl::threads{threads});
  const auto await_all = [&] {
    while (begun.load() < 1000) std::this_thread::yield();
  };
  SECTION("by stop()") {
    auto loader = p.finite();
    await_all();
    loader.stop();
    CHECK(!loader.next());
  }
  SECTION("by the destructor") {
    const auto loader = p.finite();
    await_all();
  }
  SECTION("by a token, while the consumer waits") {
    std::stop_source stopping;
    auto loader = p.infinite({.stop = stopping.get_token()});
    const std::jthread other([&] {
      await_all();
      stopping.request_stop();
    });
    CHECK(!loader.next());
  }
  CHECK(begun.load() >= 1000);
  CHECK(cancelled.load() == begun.load());
  CHECK(alive.live() == 0);
}

TEST_CASE("async_map ends a stop at any moment, with nothing left behind") {
  const fl::test::watchdog guard("stops at any moment");
  fl::test::lifetimes alive;
  const holding hold = [&](int i, async_context& c) -> asio::awaitable<fl::test::counted_item> {
    fl::test::counted_item made(alive, i);
    co_await random_pause(c);
    co_return made;
  };
  for (std::size_t taken = 0; taken < 40; ++taken) {
    auto loader = (fl::from(count_to(50)) | fl::async_map(hold, fl::in_flight{8}, fl::threads{2})).infinite();
    collect(loader, taken);
    if (taken % 2 == 0) loader.stop();
  }
  CHECK(alive.live() == 0);
}

TEST_CASE("What a stage downstream doesn't need of async_map is dropped") {
  const fl::test::watchdog guard("take after async_map");
  fl::test::lifetimes alive;
  const fetching wait = [&](int i, async_context& c) -> asio::awaitable<int> {
    const fl::test::counted_item frame(alive, i);
    co_await pause(c, i < 10 ? 0ms : 5ms);
    co_return i;
  };
  auto loader =
      (fl::from(count_to(100'000)) | fl::async_map(wait, fl::in_flight{50}) | fl::take(10)).finite();
  CHECK(collect(loader) == count_to(10));
  CHECK(alive.live() == 0);
}

TEST_CASE("A failure ends a run although others of async_map would wait for ever") {
  const fl::test::watchdog guard("a failure among waiting coroutines");
  const fetching wait = [](int i, async_context& c) -> asio::awaitable<int> {
    if (i == 3) throw std::runtime_error("the fourth");
    if (i > 3) co_await wait_for_cancellation(c);
    co_return i;
  };
  const auto got = run_to_end((fl::from(count_to(100)) | fl::async_map(wait, fl::in_flight{50})).finite());
  CHECK(got.items == count_to(3));
  CHECK(got.failed);
}

TEST_CASE("A run with async_map is resumed exactly") {
  fl::test::leave_and_resume("async_map", 12, [](fl::test::draw& d, const fl::test::circumstances& c) {
    const bool shuffles = d.coin();
    return fl::from(count_to(static_cast<int>(d(1, 40)))) |
           fl::map([](int i) { return i; }, fl::workers{c.workers}) |
           fl::async_map(same_but_not_5, fl::in_flight{c.queue}, fl::threads{c.workers}) |
           fl::shuffle({.capacity = shuffles ? d(1, 20) : 1}) | fl::batch(d(1, 7));
  });
}

TEST_CASE("A resumed run waits for the samples that a shuffle buffer held all at once") {
  const fl::test::watchdog guard("samples read again");
  waiting_count waiting;
  std::atomic<bool> is_resumed = false; // coroutines of the earlier run may still read it
  const fetching wait = [&](int i, async_context& c) -> asio::awaitable<int> {
    if (is_resumed) co_await waiting.wait_for(15, c);
    co_return i;
  };
  const auto p = fl::from(count_to(100)) | fl::async_map(wait, fl::in_flight{30}) |
                 fl::shuffle({.capacity = 20, .min_fill = 20}) | fl::batch(1);
  auto earlier = p.finite({.seed = 1});
  std::size_t before = 10, after = 0;
  for (std::size_t n = 0; n < before; ++n) REQUIRE(earlier.next());
  const fl::checkpoint here = earlier.checkpoint();
  earlier.stop();
  is_resumed = true;
  auto later = p.finite({.seed = 1, .resume = here});
  while (later.next()) ++after;
  CHECK(before + after == 100);
  CHECK(waiting.peak() >= 15);
}

TEST_CASE("async_map works between stages of all kinds") {
  const auto twice = [](int i, async_context& c) -> asio::awaitable<int> {
    co_await random_pause(c);
    co_return 2 * i;
  };
  const auto run = [&](std::size_t workers, std::size_t in_flight) {
    const auto add = [](int i) { return i + 1; };
    std::vector<std::vector<int>> all;
    auto loader = (fl::from(count_to(100)) | fl::map(add, fl::workers{workers}) |
                   fl::async_map(twice, fl::in_flight{in_flight}) |
                   fl::async_map(twice, fl::in_flight{2 * in_flight}, fl::threads{2}) |
                   fl::map(add, fl::workers{workers}) | fl::shuffle({.capacity = 30}) | fl::batch(7))
                      .finite({.seed = 1, .epochs = 2});
    for (const auto& batch : loader) all.emplace_back(batch.values().begin(), batch.values().end());
    return all;
  };
  const auto expected = run(1, 1);
  CHECK(expected.size() == 30);
  CHECK(run(4, 16) == expected);
  CHECK(run(2, 200) == expected);
}

TEST_CASE("The runs of one pipeline share the threads of async_map") {
  const auto p = fl::from(count_to(200)) | fl::async_map(fetching(same), fl::in_flight{8});
  auto first = p.finite();
  auto second = p.finite();
  for (int i = 0; i < 200; ++i) {
    CHECK(first.next() == i);
    CHECK(second.next() == i);
  }
  CHECK(!first.next());
  CHECK(!second.next());
}

TEST_CASE("A run that ends takes its items with it, although another one uses the same threads") {
  const fl::test::watchdog guard("a run that ends before another one");
  fl::test::lifetimes alive;
  const holding hold = [&](int i, async_context& c) -> asio::awaitable<fl::test::counted_item> {
    fl::test::counted_item made(alive, i);
    if (c.epoch == 0 && i < 4) co_await random_pause(c);
    else co_await wait_for_cancellation(c);
    co_return made;
  };
  const auto p = fl::from(count_to(50)) | fl::async_map(hold, fl::in_flight{8});
  auto other = p.infinite();
  CHECK(collect(other, 4).size() == 4);
  while (alive.live() < 8) std::this_thread::yield();
  for (int n = 0; n < fl::test::rounds(200); ++n) {
    {
      auto ends = p.infinite();
      static_cast<void>(collect(ends, static_cast<std::size_t>(n % 5)));
    }
    CHECK(alive.live() == 8); // those of the other run
  }
}

TEST_CASE("A result of async_map that is ready doesn't wait for the next one") {
  const fl::test::watchdog guard("a result before one that never comes");
  const fetching wait = [](int i, async_context& c) -> asio::awaitable<int> {
    if (i == 500) co_await wait_for_cancellation(c);
    co_return i;
  };
  const auto p = fl::from(count_to(600)) | fl::async_map(wait, fl::in_flight{100});
  auto loader = p.finite();
  CHECK(collect(loader, 500) == count_to(500));
  auto mapped = (p | fl::map([](int i) { return i; }) | fl::batch(1)).finite();
  CHECK(collect(mapped, 500).size() == 500);
}

TEST_CASE("What a coroutine starts besides doesn't keep a run from ending") {
  const fl::test::watchdog guard("detached work");
  const fetching start = [](int i, async_context& c) -> asio::awaitable<int> {
    asio::co_spawn(
        c.executor,
        [executor = c.executor]() -> asio::awaitable<void> {
          asio::steady_timer timer(executor, 24h);
          co_await timer.async_wait(asio::use_awaitable);
        },
        asio::detached);
    co_return i;
  };
  const auto p = fl::from(count_to(10)) | fl::async_map(start);
  CHECK(collect(p.finite()) == count_to(10));
  CHECK(collect(p.finite()) == count_to(10));
}

TEST_CASE("A timer that a function of async_map keeps is valid in several runs and after them") {
  struct keeper {
    asio::awaitable<int> operator()(int i, async_context& c) const {
      if (!*timer) timer->emplace(c.executor, 24h);
      (*timer)->expires_after(1us);
      co_await (*timer)->async_wait(asio::use_awaitable);
      co_return i;
    }

    std::shared_ptr<std::optional<asio::steady_timer>> timer =
        std::make_shared<std::optional<asio::steady_timer>>();
  };

  const auto p = fl::from(count_to(5)) | fl::async_map(fetching(keeper()), fl::in_flight{1});
  CHECK(collect(p.finite()) == count_to(5));
  CHECK(collect(p.finite()) == count_to(5));
}

TEST_CASE("A failed call of async_map needs no default result") {
  struct no_default {
    explicit no_default(int i) noexcept : value(i) {}

    no_default() : value(0) { throw std::logic_error("a default was made"); }

    int value;
  };

  const auto fails = [](int i) -> asio::awaitable<no_default> {
    if (i == 2) throw std::runtime_error("two");
    co_return no_default(i);
  };
  const auto got = run_to_end((fl::from(count_to(5)) | fl::async_map(fails)).finite());
  CHECK(got.items.size() == 2);
  REQUIRE(got.failed);
  CHECK(got.failed->message == "two");
}

TEST_CASE("A sample of async_map can be replayed") {
  const fetching read = [](int i, async_context& c) -> asio::awaitable<int> {
    co_await random_pause(c);
    co_return i + static_cast<int>(c.random.below(1'000'000));
  };
  const auto p = fl::from(count_to(30)) | fl::async_map(read, fl::in_flight{4});
  const auto all = collect(p.finite({.seed = 9}));
  CHECK(p.replay(fl::finite_options{.seed = 9}, {17}) == all.at(17));
}

TEST_CASE("metrics() show how many coroutines of async_map were in flight and how long they took") {
  waiting_count waiting;
  const fetching wait = [&](int i, async_context& c) -> asio::awaitable<int> {
    c.count("requests");
    c.gauge("number", i);
    co_await waiting.wait_for(15, c);
    if (i == 7) throw std::runtime_error("seven");
    co_return i;
  };
  auto loader = (fl::from(count_to(100)) | fl::async_map(wait, fl::in_flight{20}, fl::name{"fetch"}))
                    .finite({.on_error = fl::on_error::skip});
  while (loader.next()) {
  }
  const fl::metrics m = loader.metrics();
  REQUIRE(m.total.stages.size() == 3);
  const auto& start = m.total.stages[1];
  const auto& ended = m.total.stages[2];
  CHECK(start.name == "start `fetch`");
  CHECK(ended.name == "async_map `fetch`");
  CHECK(ended.received == 100);
  CHECK(ended.emitted == 99);
  CHECK(ended.failures == 1);
  const auto value = [](const fl::stage_metrics& s, const std::string& name) {
    for (const auto& u : s.user_metrics)
      if (u.name == name) return u.value;
    return -1.0;
  };
  CHECK(value(start, "requests") == 100);
  CHECK(value(start, "number") > 50); // of the coroutine that began last: they needn't begin in order
  CHECK(value(ended, "in flight, peak") == 20);
  CHECK(value(ended, "in flight, mean") > 0);
  CHECK(value(ended, "in flight, mean") <= 20);
  CHECK(value(ended, "ms, mean") > 0);
  CHECK(value(ended, "ms, 90th %") > 0);
  CHECK(value(ended, "ms, 99th %") >= value(ended, "ms, 90th %"));
}

TEST_CASE("The memory plan counts the items of async_map that are in flight") {
  const auto plan_of = [](std::size_t in_flight) {
    return (fl::from(count_to(10)) |
            fl::async_map(as_many_bytes, fl::in_flight{in_flight}, fl::max_item_bytes{1'000'000}))
        .memory();
  };
  REQUIRE(plan_of(10).bytes());
  const std::size_t few = *plan_of(10).bytes(), many = *plan_of(110).bytes();
  CHECK(many - few >= 112'000'000); // an eighth more are due
  CHECK(many - few < 114'000'000);

  CHECK_THROWS_AS(
      (fl::from(count_to(10)) | fl::async_map(as_many_bytes)).finite({.memory_budget = 1'000'000'000}),
      std::invalid_argument);
}

TEST_CASE("async_map refuses options out of range") {
  CHECK_THROWS_WITH(fl::async_map(same, fl::in_flight{0}),
                    "feedline::in_flight: 0 requested, but it must be 1 to 65536");
  CHECK_THROWS_WITH(fl::async_map(same, fl::in_flight{65'537}),
                    "feedline::in_flight: 65537 requested, but it must be 1 to 65536");
  CHECK_THROWS_WITH(fl::async_map(same, fl::threads{0}),
                    "feedline::threads: 0 requested, but it must be 1 to 256");
  CHECK_THROWS_WITH(fl::async_map(same, fl::threads{257}),
                    "feedline::threads: 257 requested, but it must be 1 to 256");
}

TEST_CASE("A million items with random times, failures and cancellations keep their order") {
  const fl::test::watchdog guard("a million items");
  const int count = fl::test::rounds(1'000'000);
  const fetching some_fail = [](int i, async_context& c) -> asio::awaitable<int> {
    if (c.random.chance(0.5)) co_await pause(c, std::chrono::microseconds(c.random.below(50)));
    if (i % 100 == 99) throw std::runtime_error("a hundredth");
    if (i % 100 == 49) {
      asio::steady_timer timer(c.executor, 24h);
      asio::post(c.executor, [&] { timer.cancel(); });
      co_await timer.async_wait(asio::use_awaitable);
    }
    co_return i;
  };
  auto loader = (fl::from(count_to(count)) | fl::async_map(some_fail, fl::in_flight{500}, fl::threads{2}))
                    .finite({.on_error = fl::on_error::skip, .failure_limit = 1'000'000});
  int next = 0;
  bool in_order = true;
  while (const auto i = loader.next()) {
    if (next % 50 == 49) ++next;
    in_order = in_order && *i == next++;
  }
  CHECK(in_order);
  CHECK(next == count - 1);
  CHECK(loader.metrics().total.stages[2].failures == static_cast<std::uint64_t>(count / 50));
}

TEST_CASE("Unordered, the results of async_map leave in the order in which they are ready") {
  const fl::test::watchdog guard("unordered results");
  std::atomic<bool> others_are_out{false};
  const fetching first_waits = [&](int i, async_context& c) -> asio::awaitable<int> {
    while (i == 0 && !others_are_out.load()) co_await pause(c, 100us);
    co_return i;
  };
  auto loader =
      (fl::from(count_to(100)) | fl::async_map(first_waits, fl::in_flight{5}, fl::unordered)).finite();
  std::vector<int> got;
  // Up to four that are ready wait for the next item, which doesn't come.
  while (got.size() < 95) got.push_back(loader.next().value());
  CHECK(std::find(got.begin(), got.end(), 0) == got.end());
  others_are_out = true;
  while (const auto i = loader.next()) got.push_back(*i);
  std::sort(got.begin(), got.end());
  CHECK(got == count_to(100));
}

TEST_CASE("Unordered, each item of async_map appears once, in its epoch") {
  const fl::test::watchdog guard("unordered epochs");
  for (const std::size_t in_flight : {1u, 2u, 7u, 500u}) {
    const auto numbered = [](int i, async_context& c) -> asio::awaitable<std::pair<std::uint32_t, int>> {
      co_await random_pause(c);
      co_return std::pair(c.epoch, i);
    };
    const auto p = fl::from(count_to(60)) | fl::async_map(numbered, fl::in_flight{in_flight}, fl::unordered);
    std::vector<std::pair<std::uint32_t, int>> expected;
    for (std::uint32_t epoch = 0; epoch < 3; ++epoch)
      for (int i = 0; i < 60; ++i) expected.emplace_back(epoch, i);
    auto got = collect(p.finite({.epochs = 3}));
    std::uint32_t n = 0;
    for (const auto& item : got) CHECK(item.first == n++ / 60);
    std::sort(got.begin(), got.end());
    CHECK(got == expected);
    auto endless = p.infinite();
    got = collect(endless, 120);
    std::sort(got.begin(), got.end());
    got.resize(60);
    CHECK(got == std::vector(expected.begin(), expected.begin() + 60));
  }
}

TEST_CASE("Unordered, a failure of async_map names its own sample and loses no other") {
  const fetching some_fail = [](int i, async_context& c) -> asio::awaitable<int> {
    co_await random_pause(c);
    if (i % 10 == 3) throw std::runtime_error("number " + std::to_string(i));
    co_return i;
  };
  const auto p = fl::from(count_to(100)) | fl::async_map(some_fail, fl::in_flight{9}, fl::unordered);
  auto loader = p.finite({.on_error = fl::on_error::skip});
  CHECK(collect(loader).size() == 90);
  CHECK(loader.failures().size() == 10);
  for (const fl::failure& f : loader.failures()) CHECK(f.message == "number " + std::to_string(f.index));
  const auto got = run_to_end(p.finite());
  REQUIRE(got.failed);
  CHECK(got.failed->index % 10 == 3);
}

TEST_CASE("Unordered, async_map ends early and doesn't keep its order in checkpoints") {
  fl::test::lifetimes alive;
  const holding hold = [&](int i, async_context& c) -> asio::awaitable<fl::test::counted_item> {
    fl::test::counted_item made(alive, i);
    co_await random_pause(c);
    co_return made;
  };
  const auto p = fl::from(count_to(10'000)) | fl::async_map(hold, fl::in_flight{50}, fl::unordered);
  for (int n = 0; n < fl::test::rounds(50); ++n) {
    {
      auto loader = p.finite();
      const auto wanted = static_cast<std::size_t>(n);
      CHECK(collect(loader, wanted).size() == wanted);
    }
    CHECK(alive.live() == 0);
  }
  CHECK(collect((p | fl::take(10)).infinite(), 25).size() == 25);
  CHECK(alive.live() == 0);
  static_assert(!decltype(p.finite())::has_checkpoints);
}

TEST_CASE("a loader names the sample whose coroutine its consumer waits for") {
  const fl::test::watchdog dog("a coroutine that hangs");
  const auto hangs = [](int i, async_context& c) -> asio::awaitable<int> {
    if (i == 5) co_await wait_for_cancellation(c);
    co_return i;
  };
  auto loader =
      (fl::from(count_to(50)) | fl::async_map(fetching(hangs), fl::name{"fetch"}, fl::in_flight{8})).finite();
  std::jthread consumer([&] {
    while (loader.next()) {
    }
  });
  fl::test::await_all_others_asleep();
  const std::string text = loader.waiting_for();
  CAPTURE(text);
  CHECK(text.find("async_map `fetch`, on sample 5, which waits inside its function, for ") != text.npos);
  loader.stop();
}
