// SPDX-License-Identifier: MIT
// Runs with asynchronous stages in each state, and what may be called then: from the consumer's thread, from others and
// from coroutines.
#include <feedline/async.hpp>

#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
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

enum class call { next, try_next, next_for, stop, destruction, metrics, checkpoint };

std::string text_of(const std::optional<int>& item) {
  return item ? "item " + std::to_string(*item) : "nothing";
}

/// What next() returns or throws, in words.
template <class Next>
std::string outcome_of(const Next& next) {
  try {
    return text_of(next());
  } catch (const fl::pipeline_error&) {
    return "the error";
  }
}

std::string name_of(fl::run_state s) {
  constexpr std::array names{"running", "finished", "stopped", "failed"};
  return names[static_cast<std::size_t>(s)];
}

/// Calls a function of a run and says in words what it did.
std::string outcome_of(call what, std::optional<loader>& l) {
  switch (what) {
  case call::next:
    return outcome_of([&] { return l->next(); });
  case call::try_next:
    return outcome_of([&]() -> std::optional<int> {
      for (;;) {
        if (auto r = l->try_next()) return *r;
        else if (r.has_ended()) return std::nullopt;
        std::this_thread::yield();
      }
    });
  case call::next_for:
    return outcome_of([&]() -> std::optional<int> {
      auto r = l->next_for(1h);
      return r ? std::optional(*r) : std::nullopt;
    });
  case call::stop:
    l->stop();
    l->stop(); // again
    return name_of(l->state()) + ", then " + outcome_of([&] { return l->next(); });
  case call::destruction:
    l.reset();
    return "gone";
  case call::metrics: {
    const fl::interval_metrics total = l->metrics().total;
    return std::to_string(total.consumer.items) + " items of " + std::to_string(total.stages.size()) +
           " stages";
  }
  case call::checkpoint: {
    const auto saved = fl::checkpoint::from_bytes(l->checkpoint().to_bytes());
    shared of_other;
    const std::vector<int> rest = collect(pipeline_of(of_other).finite({.resume = saved}));
    const auto first = static_cast<std::ptrdiff_t>(count) - static_cast<std::ptrdiff_t>(rest.size());
    const std::vector<int> all = count_to(count);
    return std::equal(rest.begin(), rest.end(), all.begin() + first, all.end())
               ? "the rest from " + std::to_string(first)
               : "wrong items";
  }
  }
  return {};
}

/// The table in the documentation of loader.
std::string expected_of(call what, state in) {
  const auto by_state = [&](std::string constructed, std::string running, std::string exhausted,
                            std::string stopped, std::string failed) {
    return std::array{constructed, running, exhausted, stopped, failed}[static_cast<std::size_t>(in)];
  };
  switch (what) {
  case call::next:
  case call::try_next:
  case call::next_for:
    return by_state("item 0", "item 10", "nothing", "nothing", "the error");
  case call::stop: {
    const std::string stopped = "stopped, then nothing";
    return by_state(stopped, stopped, stopped, stopped, "failed, then the error");
  }
  case call::destruction:
    return "gone";
  case call::metrics:
    return by_state("0", "10", "60", "10", "40") + " items of 5 stages";
  case call::checkpoint:
    return "the rest from " + by_state("0", "10", "60", "10", "40");
  }
  return {};
}

} // namespace

TEST_CASE("Every function of a run with asynchronous stages may be called in every state, from any thread") {
  const fl::test::watchdog guard("states of asynchronous runs");
  const auto in =
      GENERATE(state::constructed, state::running, state::exhausted, state::stopped, state::failed);
  const auto what = GENERATE(call::next, call::try_next, call::next_for, call::stop, call::destruction,
                             call::metrics, call::checkpoint);
  const bool from_another_thread = GENERATE(false, true);
  INFO("state " << static_cast<int>(in) << ", call " << static_cast<int>(what));
  shared s;
  {
    std::optional<loader> l(bring(s, in));
    std::string outcome;
    if (from_another_thread) std::jthread([&] { outcome = outcome_of(what, l); }).join();
    else outcome = outcome_of(what, l);
    CHECK(outcome == expected_of(what, in));
  }
  CHECK(s.alive.live() == 0);
}

TEST_CASE("A run with asynchronous stages may be moved in every state") {
  const fl::test::watchdog guard("moved asynchronous runs");
  const auto in =
      GENERATE(state::constructed, state::running, state::exhausted, state::stopped, state::failed);
  shared s;
  {
    loader l = bring(s, in);
    std::optional<loader> other(std::move(l));
    CHECK(outcome_of(call::next, other) == expected_of(call::next, in));
  }
  CHECK(s.alive.live() == 0);
}

TEST_CASE("While one thread waits for an item, others may read the metrics and stop the run") {
  const fl::test::watchdog guard("calls during a wait");
  const auto what = GENERATE(call::next, call::try_next, call::next_for);
  shared s;
  s.waits = true; // item 40 never comes
  {
    std::optional<loader> l(pipeline_of(s).finite());
    CHECK(collect(*l, failing) == count_to(failing));
    std::vector<std::jthread> others;
    for (int n = 0; n < 2; ++n)
      others.emplace_back([&] {
        for (int i = 0; i < 20; ++i) static_cast<void>(l->metrics());
        l->stop();
      });
    CHECK(outcome_of(what, l) == "nothing");
    others.clear();
    CHECK(outcome_of(call::checkpoint, l) == "the rest from 40");
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
