// SPDX-License-Identifier: MIT
#include <feedline/async/deadline.hpp>

#include <feedline/async/async_map.hpp>
#include <feedline/core/retry.hpp>
#include <feedline/source/range.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "support/catch.hpp"
#include "support/coroutines.hpp"
#include "support/lifetimes.hpp"
#include "support/outcome.hpp"
#include "support/rounds.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace std::chrono_literals;
using fl::async_context;
using fl::test::collect;
using fl::test::count_to;
using fl::test::random_pause;
using fl::test::run_to_end;
using fl::test::wait_for_cancellation;

namespace {

using fetching = std::function<asio::awaitable<int>(int, async_context&)>;

} // namespace

TEST_CASE("A call that takes longer than its deadline is cancelled and fails") {
  const fl::test::watchdog guard("deadlines");
  fl::test::lifetimes alive;
  const fetching hang = [&](int i, async_context& c) -> asio::awaitable<int> {
    const fl::test::counted_item frame(alive, i);
    if (i == 3) co_await wait_for_cancellation(c);
    co_return i;
  };
  const auto p = fl::from(count_to(10)) |
                 fl::async_map(hang, fl::deadline{200ms}); // of a busy machine too, the others end before
  const auto got = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(got.items == std::vector<int>{0, 1, 2, 4, 5, 6, 7, 8, 9});
  REQUIRE(got.skipped.size() == 1);
  CHECK(fl::to_string(got.skipped[0]) == "async_map failed on sample 3: it took longer than 200 ms");
  CHECK_THROWS_AS(std::rethrow_exception(got.skipped[0].error), fl::deadline_error);
  CHECK(alive.live() == 0);
}

TEST_CASE("A deadline changes nothing for calls that end in time") {
  const auto some_fail = [](int i, async_context& c) -> asio::awaitable<std::string> {
    co_await random_pause(c);
    if (i == 5) throw std::runtime_error("five");
    co_return std::to_string(i);
  };
  const auto p = fl::from(count_to(20)) | fl::async_map(some_fail, fl::deadline{1h});
  const auto got = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(got.items.size() == 19);
  REQUIRE(got.skipped.size() == 1);
  CHECK(got.skipped[0].message == "five");
}

TEST_CASE("Deadlines and retries apply in their order") {
  const fl::test::watchdog guard("deadlines and retries");
  std::atomic<int> calls{0};
  const fetching hang = [&](int i, async_context& c) -> asio::awaitable<int> {
    ++calls;
    co_await wait_for_cancellation(c);
    co_return i;
  };
  const auto message = [&](auto... options) {
    calls = 0;
    const auto got = run_to_end((fl::from(count_to(1)) | fl::async_map(hang, options...)).finite());
    return got.failed ? got.failed->message : "";
  };
  const fl::retry twice{.attempts = 2, .first_pause = 1us};
  CHECK(message(fl::deadline{2ms}, twice) == "it took longer than 2 ms; tried 2 times");
  CHECK(calls == 2);
  CHECK(message(twice, fl::deadline{2ms}) == "it took longer than 2 ms");
  CHECK(calls == 1);
  CHECK(message(fl::deadline{1h}, twice, fl::deadline{1500us}) == "it took longer than 1.5 ms");
  CHECK(calls == 1);
}

TEST_CASE("A stop ends calls before their deadlines") {
  const fl::test::watchdog guard("a stop before deadlines");
  std::atomic<int> begun{0};
  const fetching hang = [&](int i, async_context& c) -> asio::awaitable<int> {
    ++begun;
    co_await wait_for_cancellation(c);
    co_return i;
  };
  auto loader =
      (fl::from(count_to(100)) | fl::async_map(hang, fl::deadline{1h}, fl::retry{.first_pause = 1h}))
          .finite();
  while (begun.load() < 100) std::this_thread::yield();
  loader.stop();
  CHECK(!loader.next());
  CHECK(begun.load() == 100);
}

TEST_CASE("Deadlines that pass as calls end are harmless") {
  const fl::test::watchdog guard("deadlines at the last moment");
  const fetching close_to_it = [](int i, async_context& c) -> asio::awaitable<int> {
    co_await fl::test::pause(c, std::chrono::microseconds(c.random.below(400)));
    co_return i;
  };
  const int count = fl::test::rounds(2000);
  const auto got = run_to_end((fl::from(count_to(count)) | fl::async_map(close_to_it, fl::deadline{200us},
                                                                         fl::in_flight{64}, fl::threads{2}))
                                  .finite({.on_error = fl::on_error::skip, .failure_limit = 1'000'000}));
  CHECK(!got.failed);
  CHECK(got.items.size() + got.skipped.size() == static_cast<std::size_t>(count));
  for (const auto& f : got.skipped) CHECK(f.message == "it took longer than 200 us");
}

TEST_CASE("A deadline must be positive") {
  const auto same = [](int i) -> asio::awaitable<int> { co_return i; };
  CHECK_THROWS_AS(fl::async_map(same, fl::deadline{0s}), std::invalid_argument);
  CHECK_THROWS_AS(fl::async_map(same, fl::deadline{-1s}), std::invalid_argument);
}
