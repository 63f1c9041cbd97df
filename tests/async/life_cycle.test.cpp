// SPDX-License-Identifier: MIT
// Runs with asynchronous stages in each state, and what may be called then: from the consumer's thread, from others and
// from coroutines.
#include <feedline/async.hpp>

#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/coroutines.hpp"
#include "support/lifetimes.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace std::chrono_literals;
using fl::async_context;
using fl::async_generator;
using fl::test::collect;
using fl::test::count_to;
using fl::test::random_pause;
using fl::test::wait_for_cancellation;

namespace {

enum class state { constructed, running, exhausted, stopped, failed };

constexpr int count = 60, failing = 40;

/// What the coroutines of a run share.
struct shared {
  fl::test::lifetimes alive;
  bool fails = false;
  bool waits = false; // the last items never come
};

asio::awaitable<int> give(int i, shared& s, async_context& c) {
  const fl::test::counted_item frame(s.alive, i);
  co_await random_pause(c);
  if (s.fails && i == failing) throw std::runtime_error("number 40");
  if (s.waits && i >= failing) co_await wait_for_cancellation(c);
  co_return i;
}

/// Numbers from a source, a map and a flat_map, which all wait.
auto pipeline_of(shared& s) {
  const auto numbers = [&s](const fl::epoch&, async_context& c) -> async_generator<int> {
    const fl::test::counted_item frame(s.alive, 0);
    for (int i = 0; i < count; ++i) {
      if (i % 10 == 0) co_await random_pause(c);
      co_yield i;
    }
  };
  const auto one = [&s](int i, async_context& c) { return give(i, s, c); };
  const auto each = [&s](int i, async_context& c) -> async_generator<int> {
    const fl::test::counted_item frame(s.alive, i);
    co_await random_pause(c);
    co_yield i;
  };
  return fl::async_source(numbers, fl::ahead{5}) | fl::async_map(one, fl::in_flight{8}, fl::threads{2}) |
         fl::async_flat_map(each, fl::in_flight{4});
}

using loader = fl::loader_of<decltype(pipeline_of(std::declval<shared&>()))>;

/// Brings a run into a state.
loader bring(shared& s, state to) {
  s.fails = to == state::failed;
  s.waits = to == state::running || to == state::constructed || to == state::stopped;
  loader l = pipeline_of(s).finite();
  if (to == state::running || to == state::stopped) CHECK(collect(l, 10) == count_to(10));
  if (to == state::stopped) l.stop();
  if (to == state::exhausted) CHECK(collect(l) == count_to(count));
  if (to == state::failed) {
    CHECK(collect(l, failing) == count_to(failing));
    CHECK_THROWS_AS(l.next(), fl::pipeline_error);
  }
  return l;
}

/// Whether the next item is the one that a run in that state gives.
template <class Next>
void check_next(state in, const Next& next) {
  switch (in) {
  case state::constructed:
    CHECK(next() == std::optional(0));
    break;
  case state::running:
    CHECK(next() == std::optional(10));
    break;
  case state::exhausted:
  case state::stopped:
    CHECK(next() == std::nullopt);
    break;
  case state::failed:
    CHECK_THROWS_AS(next(), fl::pipeline_error);
    break;
  }
}

} // namespace

TEST_CASE("A run with asynchronous stages may be used in every state") {
  const fl::test::watchdog guard("states of asynchronous runs");
  const auto in =
      GENERATE(state::constructed, state::running, state::exhausted, state::stopped, state::failed);
  INFO("state " << static_cast<int>(in));
  shared s;
  {
    loader l = bring(s, in);
    SECTION("next") {
      check_next(in, [&] { return l.next(); });
      check_next(in == state::constructed || in == state::running ? state::stopped : in, [&] {
        l.stop();
        return l.next();
      });
    }
    SECTION("try_next") {
      check_next(in, [&]() -> std::optional<int> {
        for (;;) {
          auto r = l.try_next();
          if (r) return *r;
          if (r.has_ended()) return std::nullopt;
          std::this_thread::yield();
        }
      });
    }
    SECTION("next_for") {
      check_next(in, [&]() -> std::optional<int> {
        auto r = l.next_for(1h);
        return r ? std::optional(*r) : std::nullopt;
      });
    }
    SECTION("stop, twice and from another thread") {
      std::jthread([&] { l.stop(); }).join();
      l.stop();
      if (in != state::failed) CHECK(!l.next());
    }
    SECTION("metrics, from this thread and another") {
      std::jthread other([&] {
        for (int i = 0; i < 20; ++i) static_cast<void>(l.metrics());
      });
      CHECK(l.metrics().total.stages.size() == 5);
    }
    SECTION("checkpoint, from which another run continues") {
      const auto saved = fl::checkpoint::from_bytes(l.checkpoint().to_bytes());
      shared other;
      auto resumed = pipeline_of(other).finite({.resume = saved});
      std::vector<int> expected = count_to(count);
      const auto given = in == state::constructed ? 0
                         : in == state::exhausted ? count
                         : in == state::failed    ? failing
                                                  : 10;
      expected.erase(expected.begin(), expected.begin() + given);
      CHECK(collect(resumed) == expected);
    }
    SECTION("a move") {
      loader other = std::move(l);
      check_next(in, [&] { return other.next(); });
    }
    SECTION("destruction") {}
  }
  CHECK(s.alive.live() == 0);
}

TEST_CASE("The coroutines of a run may stop it") {
  const fl::test::watchdog guard("a stop by a coroutine");
  std::function<void()> stop;
  std::atomic<bool> may_stop{false};
  const auto stops = [&](int i, async_context& c) -> asio::awaitable<int> {
    if (i == 20) {
      while (!may_stop) co_await fl::test::pause(c, 1ms);
      stop();
      co_await wait_for_cancellation(c);
    }
    co_return i;
  };
  auto l = (fl::from(count_to(count)) | fl::async_map(stops, fl::in_flight{30})).finite();
  stop = [&] { l.stop(); };
  may_stop = true;
  CHECK(collect(l).size() <= 20);
  CHECK(l.stopped());
}

TEST_CASE("The consumer may stop taking items before the coroutines have ended, and the other way round") {
  const fl::test::watchdog guard("either side first");
  shared s;
  SECTION("the consumer first") {
    s.waits = true;
    auto l = pipeline_of(s).finite();
    CHECK(collect(l, failing) == count_to(failing));
  }
  SECTION("the coroutines first") {
    // All items of the source pass while the consumer takes none: they fit into the queues.
    std::atomic<int> made{0};
    const auto one = [&](int i) -> asio::awaitable<int> {
      ++made;
      co_return i;
    };
    auto l = (fl::from(count_to(50)) | fl::async_map(one, fl::in_flight{100})).finite();
    while (made < 50) std::this_thread::yield();
    CHECK(collect(l) == count_to(50));
  }
  CHECK(s.alive.live() == 0);
}
