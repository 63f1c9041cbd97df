// SPDX-License-Identifier: MIT
#include <feedline/async/async_map.hpp>

#include <feedline/core/retry.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/coroutines.hpp"
#include "support/leave_and_resume.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace std::chrono_literals;
using fl::async_context;
using fl::test::collect;
using fl::test::count_to;
using fl::test::random_pause;
using fl::test::run_to_end;

namespace {

using fetching = std::function<asio::awaitable<int>(int, async_context&)>;

constexpr fl::retry quick{.attempts = 3, .first_pause = 10us};

/// Fails the first `failures` times for each of ten items.
struct healing {
  asio::awaitable<int> operator()(int i, async_context& c) const {
    co_await random_pause(c);
    const int tried = (*calls)[static_cast<std::size_t>(i)]++;
    if (tried < failures) throw std::runtime_error("busy");
    co_return i;
  }

  int failures;
  std::array<std::atomic<int>, 10>* calls;
};

} // namespace

TEST_CASE("retry calls a function again until it succeeds") {
  std::array<std::atomic<int>, 10> calls{};
  const auto p =
      fl::from(count_to(10)) | fl::async_map(fetching(healing{2, &calls}), quick, fl::in_flight{4});
  auto loader = p.finite();
  CHECK(collect(loader) == count_to(10));
  for (const auto& c : calls) CHECK(c.load() == 3);
  CHECK(loader.metrics().total.stages[1].user_metrics.at(0).name == "retries");
  CHECK(loader.metrics().total.stages[1].user_metrics.at(0).value == 20);
}

TEST_CASE("A failure after all retries has the last error and the number of attempts") {
  std::array<std::atomic<int>, 10> calls{};
  const auto p = fl::from(count_to(10)) | fl::async_map(fetching(healing{3, &calls}), quick);
  const auto got = run_to_end(p.finite());
  REQUIRE(got.failed);
  CHECK(fl::to_string(*got.failed) == "async_map failed on sample 0: busy; tried 3 times");
  try {
    std::rethrow_exception(got.failed->error);
  } catch (const fl::retry_error& error) {
    CHECK(error.attempts == 3);
    CHECK_THROWS_WITH(std::rethrow_if_nested(error), "busy");
  }
}

TEST_CASE("Some errors aren't retried") {
  std::atomic<int> calls{0};
  SECTION("a permanent_error") {
    const fetching missing = [&](int, async_context&) -> asio::awaitable<int> {
      ++calls;
      throw fl::permanent_error("no such file");
      co_return 0;
    };
    const auto got = run_to_end((fl::from(count_to(1)) | fl::async_map(missing, quick)).finite());
    REQUIRE(got.failed);
    CHECK(got.failed->message == "no such file");
    CHECK(calls == 1);
  }
  SECTION("any, with one attempt") {
    const fetching fails = [&](int, async_context&) -> asio::awaitable<int> {
      ++calls;
      throw std::runtime_error("busy");
      co_return 0;
    };
    const auto got =
        run_to_end((fl::from(count_to(1)) | fl::async_map(fails, fl::retry{.attempts = 1})).finite());
    REQUIRE(got.failed);
    CHECK(got.failed->message == "busy");
    CHECK(calls == 1);
  }
  SECTION("one that isn't a std::exception") {
    const fetching fails = [&](int, async_context&) -> asio::awaitable<int> {
      ++calls;
      throw 7;
      co_return 0;
    };
    CHECK(run_to_end((fl::from(count_to(1)) | fl::async_map(fails, quick)).finite()).failed);
    CHECK(calls == 1);
  }
}

TEST_CASE("A function that asks to be called later is") {
  std::chrono::steady_clock::time_point first, second;
  const fetching later = [&](int i, async_context&) -> asio::awaitable<int> {
    if (first == std::chrono::steady_clock::time_point()) {
      first = std::chrono::steady_clock::now();
      throw fl::retry_later("come back", 20ms);
    }
    second = std::chrono::steady_clock::now();
    co_return i;
  };
  CHECK(collect((fl::from(count_to(1)) | fl::async_map(later, quick)).finite()).size() == 1);
  CHECK(second - first >= 20ms);
}

TEST_CASE("Each attempt sees the same random numbers") {
  std::array<std::atomic<std::uint64_t>, 3> seen{};
  std::atomic<std::size_t> calls{0};
  const fetching draw = [&](int i, async_context& c) -> asio::awaitable<int> {
    seen[calls++] = c.random();
    if (calls < 3) throw std::runtime_error("again");
    co_return i;
  };
  CHECK(collect((fl::from(count_to(1)) | fl::async_map(draw, quick)).finite()).size() == 1);
  CHECK(seen[0] == seen[1]);
  CHECK(seen[1] == seen[2]);
}

TEST_CASE("A stop ends the pause before a retry") {
  const fl::test::watchdog guard("a stop during the pauses of retries");
  std::atomic<int> calls{0};
  const fetching fails = [&](int, async_context&) -> asio::awaitable<int> {
    ++calls;
    throw std::runtime_error("busy");
    co_return 0;
  };
  auto loader =
      (fl::from(count_to(100)) | fl::async_map(fails, fl::retry{.first_pause = 1h, .longest_pause = 1h}))
          .finite();
  while (calls.load() < 100) std::this_thread::yield();
  loader.stop();
  CHECK(!loader.next());
  CHECK(calls.load() == 100);
}

TEST_CASE("A run with retries is resumed exactly") {
  fl::test::leave_and_resume("retry", 6, [](fl::test::draw& d, const fl::test::circumstances& c) {
    const auto flaky = [](int i, async_context& context) -> asio::awaitable<int> {
      if (context.random.chance(0.3)) throw std::runtime_error("unlucky");
      co_await random_pause(context);
      co_return i;
    };
    return fl::from(count_to(static_cast<int>(d(1, 40)))) |
           fl::async_map(flaky, quick, fl::in_flight{c.queue}, fl::threads{c.workers}) | fl::batch(d(1, 7));
  });
}

TEST_CASE("retry refuses options that make no sense") {
  const auto with = [](const fl::retry& r) {
    return [r] { static_cast<void>(fl::async_map([](int i) -> asio::awaitable<int> { co_return i; }, r)); };
  };
  CHECK_THROWS_AS(with({.attempts = 0})(), std::invalid_argument);
  CHECK_THROWS_AS(with({.first_pause = -1s})(), std::invalid_argument);
  CHECK_THROWS_AS(with({.factor = 0.5})(), std::invalid_argument);
  CHECK_THROWS_AS(with({.factor = std::numeric_limits<double>::quiet_NaN()})(), std::invalid_argument);
  CHECK_THROWS_AS(with({.jitter = 1.5})(), std::invalid_argument);
  CHECK_THROWS_AS(with({.longest_pause = -1s})(), std::invalid_argument);
}

namespace {

/// Has an outage for some of the first calls.
fetching behind_outage(int first, int last, std::atomic<int>& calls) {
  return [=, &calls](int i, async_context& c) -> asio::awaitable<int> {
    co_await random_pause(c);
    if (const int call = calls++; call >= first && call < last) throw fl::outage_error("host: no route");
    co_return i;
  };
}

} // namespace

TEST_CASE("In an outage retry calls a function more often than its attempts") {
  std::atomic<int> calls{0};
  const auto p =
      fl::from(count_to(10)) |
      fl::async_map(behind_outage(3, 100, calls), fl::retry{.attempts = 2, .first_pause = 1us, .factor = 1});
  CHECK(collect(p.finite({.on_error = fl::on_error::skip})) == count_to(10));
  CHECK(calls == 107);
}

TEST_CASE("An outage that outlasts retry ends the run, whatever on_error is") {
  std::atomic<int> calls{0};
  const auto p =
      fl::from(count_to(10)) | fl::async_map(behind_outage(3, 1'000'000, calls),
                                             fl::retry{.attempts = 2, .first_pause = 1us, .for_at_most = 0s},
                                             fl::in_flight{1});
  const auto got = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(got.items == count_to(3));
  CHECK(got.skipped.empty());
  REQUIRE(got.failed);
  CHECK(fl::to_string(*got.failed) == "async_map failed on sample 3: host: no route; tried 2 times");
}
