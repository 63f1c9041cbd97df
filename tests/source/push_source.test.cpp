// SPDX-License-Identifier: MIT
#include <feedline/source/push_source.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>

#include <feedline/feedline.hpp>
#include <feedline/window.hpp>

#include "support/asleep.hpp"
#include "support/catch.hpp"
#include "support/lifetimes.hpp"
#include "support/outcome.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

static_assert(fl::source<fl::push_source<int>>);
static_assert(fl::source<fl::push_source<std::unique_ptr<int>>>);

namespace {

constexpr auto long_enough = std::chrono::hours(1);

/// A live source without samples.
struct throws_when_stopped {
  static constexpr fl::source_traits traits{.kind = "throws_when_stopped", .live = true};

  void start_epoch(const fl::epoch& e) { stop = e.stop; }

  bool ready() const { return false; }

  std::optional<int> next() {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    stopped.wait(lock, stop, [] { return false; });
    throw std::runtime_error("stopped while it waited");
  }

  std::stop_token stop{};
};

auto doubled(const fl::push_source<int>& numbers, std::size_t workers) {
  return numbers | fl::map([](int n) { return 2 * n; }, fl::workers{workers}) | fl::prefetch(100);
}

} // namespace

TEST_CASE("A run yields the items that threads push, and ends when the source is closed") {
  const watchdog guard("producers");
  for (const bool finite : {true, false}) {
    fl::push_source<int> numbers({.capacity = 7});
    auto loader = [&] {
      const auto pipeline = doubled(numbers, 2);
      return finite ? pipeline.finite() : pipeline.infinite();
    }();
    std::vector<std::thread> producers;
    std::atomic<int> refused = 0;
    for (int p = 0; p < 3; ++p)
      producers.emplace_back([&, p, numbers]() mutable {
        for (int i = 0; i < 1000; ++i) refused += numbers.push(p * 1000 + i) != fl::queue_status::success;
      });
    std::vector<int> last{-1, 999, 1999};
    for (int i = 0; i < 3000; ++i) {
      const int n = *loader.next() / 2;
      REQUIRE(n == ++last[static_cast<std::size_t>(n / 1000)]); // each producer's items are in order
    }
    for (std::thread& t : producers) t.join();
    CHECK(refused == 0);
    CHECK(!loader.try_next());
    CHECK(loader.state() == fl::run_state::running);
    numbers.close();
    CHECK(!loader.next());
    CHECK(loader.state() == fl::run_state::finished);
    CHECK(numbers.push(1) == fl::queue_status::closed);
    CHECK(numbers.is_closed());
  }
}

TEST_CASE("A closed run delivers what it has taken, also what stages hold") {
  const watchdog guard("a closed run");
  for (const bool finite : {true, false}) {
    fl::push_source<int> numbers;
    const auto pipeline = numbers | fl::map([](int n) { return n; }, fl::workers{2}) |
                          fl::shuffle({.capacity = 10}) | fl::batch(4);
    auto loader = [&] { return finite ? pipeline.finite({.seed = 1}) : pipeline.infinite({.seed = 1}); }();
    for (int i = 0; i < 7; ++i) numbers.push(i);
    await_all_others_asleep();
    CHECK(!loader.try_next()); // the shuffle buffer holds them
    std::jthread closer([&] {
      await_all_others_asleep();
      loader.close();
    });
    std::set<int> all;
    while (const auto b = loader.next()) all.insert(b->values().begin(), b->values().end());
    CHECK(all == std::set{0, 1, 2, 3, 4, 5, 6});
    CHECK(loader.state() == fl::run_state::finished);
    CHECK(numbers.push(1) == fl::queue_status::closed);
  }
  // In a mix, which is live as well, with a source that never ends or waits; and of a source that throws when it is to end.
  fl::push_source<int> numbers;
  const auto endless = fl::generate([] { return std::optional(1); });
  auto mixed = fl::mix(fl::weighted(numbers, 1), fl::weighted(endless, 1)).infinite();
  for (int i = 0; i < 10; ++i) numbers.push(1);
  CHECK(mixed.next() == 1);
  mixed.close();
  while (mixed.next()) continue;
  CHECK(mixed.state() == fl::run_state::finished);
  auto throwing = (throws_when_stopped() | fl::prefetch(1)).infinite();
  await_all_others_asleep();
  throwing.close();
  CHECK(!throwing.next());
  CHECK(throwing.state() == fl::run_state::finished);

  auto other = fl::from(std::vector{1, 2}).infinite();
  CHECK(throws_saying<std::logic_error>("from isn't live: use stop()", [&] { other.close(); }));
  fl::loader<int>().close();
}

TEST_CASE("An item reaches the consumer at once, however late the next one arrives") {
  const watchdog guard("an item that is held back");
  fl::push_source<int> numbers;
  auto serial = (numbers | fl::map([](int n) { return n; }) | fl::prefetch(1000)).infinite();
  for (int n = 0; n < 100; ++n) { // the next one is pushed after this one was read
    numbers.push(int(n));
    REQUIRE(serial.next() == n);
  }
  for (int n = 0; n < 50; ++n) numbers.push(int(n)); // several at once
  for (int n = 0; n < 50; ++n) REQUIRE(serial.next() == n);
  serial.stop();

  fl::push_source<int> others;
  auto parallel = doubled(others, 3).infinite();
  for (int n = 0; n < 100; ++n) {
    others.push(int(n));
    REQUIRE(parallel.next() == 2 * n);
  }
}

TEST_CASE("mix, concat and zip don't hold back items of a live source either") {
  const watchdog guard("a mixture");
  fl::push_source<int> numbers;
  auto loader = (fl::concat(fl::from(count_to(2)), numbers) | fl::prefetch(1000)).finite();
  CHECK(loader.next() == 0);
  CHECK(loader.next() == 1);
  for (int n = 0; n < 20; ++n) {
    numbers.push(int(n));
    REQUIRE(loader.next() == n);
  }
  fl::push_source<int> left, right;
  auto pairs = (fl::zip(left, right) | fl::prefetch(1000)).finite();
  for (int n = 0; n < 20; ++n) {
    left.push(int(n));
    right.push(-n);
    REQUIRE(pairs.next() == std::pair(n, -n));
  }
}

TEST_CASE("A consumer that waits for a live source is woken by a stop") {
  const watchdog guard("a stop");
  fl::push_source<int> numbers;
  std::stop_source stop;
  auto loader = doubled(numbers, 2).infinite({.stop = stop.get_token()});
  std::thread stopper([&] { stop.request_stop(); });
  CHECK(!loader.next());
  stopper.join();
  { const auto left = doubled(numbers, 2).infinite(); } // a run that was never read
}

TEST_CASE("Items that wait when a run is abandoned stay for the next one") {
  const watchdog guard("two runs");
  fl::push_source<int> numbers;
  std::stop_source stopped;
  stopped.request_stop();
  for (int n = 0; n < 3; ++n) numbers.push(int(n));
  { auto none = (numbers | fl::prefetch(1)).finite({.stop = stopped.get_token()}); }
  auto loader = (numbers | fl::prefetch(1)).finite();
  CHECK(numbers.push(3) == fl::queue_status::success);
  numbers.close();
  for (int n = 0; n < 4; ++n) CHECK(loader.next() == n);
  CHECK(!loader.next());
}

TEST_CASE("After the end of its run a source accepts nothing, and no producer waits") {
  const watchdog guard("the end of a run");
  const auto accepts = [](fl::push_source<int>& numbers) {
    int item = 7;
    const bool is_open = numbers.try_push(std::move(item)) != fl::queue_status::closed;
    CHECK((numbers.push_for(7, long_enough) != fl::queue_status::closed) == is_open);
    return is_open;
  };
  const auto check = [&](const auto& make, const auto& end) {
    fl::push_source<int> numbers({.capacity = 4});
    std::atomic<int> pushed{0};
    std::thread producer([&] {
      while (numbers.push(pushed.load()) != fl::queue_status::closed) ++pushed;
    });
    {
      auto loader = make(numbers);
      REQUIRE(loader.next());
      end(loader);
    }
    producer.join();
    CHECK(pushed > 0);
    CHECK_FALSE(accepts(numbers));
    CHECK_FALSE(numbers.is_closed());
    auto again = (numbers | fl::prefetch(1)).infinite();
    CHECK(accepts(numbers)); // it belongs to the next run
  };
  const auto endless = [](auto& numbers) { return doubled(numbers, 2).infinite(); };
  check(endless, [](auto& loader) { loader.stop(); });
  check(endless, [](auto&) {}); // an early break
  check([](auto& numbers) { return (numbers | fl::take(1)).finite(); },
        [](auto& loader) { CHECK_FALSE(loader.next()); });
  const auto odd_ones_fail = [](int n) { return n % 2 == 0 ? n : throw std::runtime_error("odd"); };
  check([&](auto& numbers) { return (numbers | fl::map(odd_ones_fail)).infinite(); },
        [](auto& loader) { CHECK_THROWS_AS(loader.next(), fl::pipeline_error); });
  check([](auto& numbers) { return (fl::concat(numbers) | fl::prefetch(2)).infinite(); }, [](auto&) {});

  fl::push_source<int> two;
  auto first = (two | fl::prefetch(1)).infinite();
  two.push(1);
  CHECK(first.next() == 1);
  {
    auto second = (two | fl::prefetch(1)).infinite();
    first.stop();
    CHECK(accepts(two)); // for the other run
  }
  CHECK_FALSE(accepts(two));
}

TEST_CASE("A live part learns of a run's begin and end, even if the run doesn't come to it") {
  const watchdog guard("a live part that isn't reached");
  const std::vector<int> old(100'000);
  const auto check = [&](const auto& make) {
    fl::push_source<int> numbers({.capacity = 2});
    const auto pipeline = make(numbers) | fl::prefetch(1);
    std::thread producer([&] {
      while (numbers.push(1) != fl::queue_status::closed) continue;
    });
    CHECK(pipeline.infinite().next() == 0);
    producer.join();
    auto again = pipeline.infinite();
    CHECK(numbers.try_push(1) != fl::queue_status::closed);
  };
  check([&](auto& numbers) { return fl::concat(fl::from(old), numbers); });
  check([&](auto& numbers) {
    return fl::concat(fl::from(old), fl::concat(fl::from(old), numbers | fl::map([](int n) { return n; })));
  });
  check(
      [&](auto& numbers) { return fl::mix(fl::weighted(fl::from(old), 1e9), fl::weighted(numbers, 1e-9)); });
}

TEST_CASE("The source of a pool learns of a run's begin and end, even if the run doesn't come to the pool") {
  const watchdog guard("a pool that isn't reached");
  fl::push_source<std::string> names({.capacity = 2});
  const fl::sliding_window_pool pool(names, {.window = 10});
  const auto chunk = fl::map([](const auto&) { return 1; });
  const auto pipeline = fl::concat(fl::from(std::vector<int>(100'000)), pool | chunk) | fl::prefetch(1);
  CHECK(pipeline.infinite().next() == 0);
  CHECK(names.push("a") == fl::queue_status::closed);
}

TEST_CASE("Few items wait in the queues of a live source, however small they are") {
  const watchdog guard("the bound of a live source");
  const auto waiting = [](const auto& make, fl::infinite_options options = {}) {
    fl::push_source<int> numbers({.capacity = 10});
    auto loader = make(numbers).infinite(options);
    std::atomic<int> pushed{0};
    std::thread producer([&] {
      while (numbers.push(pushed.load()) != fl::queue_status::closed) ++pushed;
    });
    while (pushed == 0) std::this_thread::yield();
    await_all_others_asleep();
    loader.stop();
    producer.join();
    return pushed.load();
  };
  // The buffer, and for each queue 256 and the packets in the hands of threads.
  const auto one = [](auto& numbers) { return numbers | fl::map([](int n) { return n; }); };
  const auto two = [](auto& numbers) {
    return numbers | fl::map([](int n) { return n; }, fl::workers{2}) | fl::map([](int n) { return n; });
  };
  CHECK(waiting(one) <= 10 + 400);
  CHECK(waiting(two) <= 10 + 2 * 400);
  CHECK(waiting(two, {.queue_capacity = 4}) <= 10 + 2 * 10);
}

TEST_CASE("A full source blocks, or drops the newest or the oldest item and counts it") {
  const watchdog guard("a full buffer");
  fl::push_source<std::unique_ptr<int>> blocking({.capacity = 2});
  for (int n = 0; n < 2; ++n) CHECK(blocking.push(std::make_unique<int>(n)) == fl::queue_status::success);
  auto third = std::make_unique<int>(2);
  CHECK(blocking.try_push(std::move(third)) == fl::queue_status::full);
  CHECK(blocking.push_for(std::move(third), std::chrono::milliseconds(5)) == fl::queue_status::full);
  REQUIRE(third); // the caller still has it
  auto status = fl::queue_status::success;
  std::thread producer([&] { status = blocking.push(std::move(third)); });
  while (blocking.size_approx() != 2) std::this_thread::yield();
  blocking.close();
  producer.join();
  CHECK(status == fl::queue_status::closed);
  CHECK(third);
  CHECK(blocking.dropped() == 0);

  fl::push_source<int> newest({.capacity = 2, .overflow = fl::overflow::drop_newest});
  for (int n = 0; n < 5; ++n) newest.push(int(n));
  CHECK(newest.try_push(7) == fl::queue_status::full); // not dropped: the caller still has it
  CHECK(newest.dropped() == 3);
  newest.close();
  CHECK(run_to_end((newest | fl::prefetch(9)).finite()).items == std::vector<int>{0, 1});

  fl::push_source<int> oldest({.capacity = 2, .overflow = fl::overflow::drop_oldest});
  for (int n = 0; n < 5; ++n) CHECK(oldest.push(int(n)) == fl::queue_status::success);
  CHECK(oldest.dropped() == 3);
  oldest.close();
  CHECK(run_to_end((oldest | fl::prefetch(9)).finite()).items == std::vector<int>{3, 4});
}

TEST_CASE("A producer that waits for room continues when there is room") {
  const watchdog guard("room");
  fl::push_source<int> numbers({.capacity = 1});
  std::thread producer([&] {
    for (int n = 0; n < 500; ++n) numbers.push_for(int(n), long_enough);
    numbers.close();
  });
  CHECK(run_to_end(doubled(numbers, 2).finite()).items.size() == 500);
  producer.join();
}

TEST_CASE("An error that a producer reports follows the items pushed before it") {
  const watchdog guard("a failure");
  for (const fl::on_error how : {fl::on_error::fail, fl::on_error::skip}) {
    fl::push_source<int> numbers;
    numbers.push(1);
    numbers.push(2);
    numbers.fail(std::runtime_error("the camera is gone"));
    numbers.fail(std::runtime_error("the second one doesn't count"));
    CHECK(numbers.push(3) == fl::queue_status::closed);
    auto loader = doubled(numbers, 1).infinite({.on_error = how});
    CHECK(loader.next() == 2);
    CHECK(loader.next() == 4);
    if (how == fl::on_error::fail) {
      CHECK(throws_saying<fl::pipeline_error>("push_source failed", [&] { loader.next(); }));
      CHECK(throws_saying<fl::pipeline_error>("the camera is gone", [&] { loader.next(); }));
    } else {
      CHECK(!loader.next());
      REQUIRE(loader.failures().size() == 1);
      CHECK(loader.failures()[0].message == "the camera is gone");
    }
  }
}

TEST_CASE("Each rank gets all items of its own live source") {
  const watchdog guard("ranks");
  fl::push_source<int> numbers;
  for (int n = 0; n < 6; ++n) numbers.push(int(n));
  numbers.close();
  CHECK(run_to_end((numbers | fl::prefetch(9)).infinite({.rank = {1, 3}})).items.size() == 6);
  CHECK_THROWS_AS((numbers | fl::prefetch(9)).finite({.rank = {1, 3}}), std::invalid_argument);
}

TEST_CASE("A memory plan contains the buffer of a live source") {
  fl::push_source<int> numbers({.capacity = 1000});
  CHECK((numbers | fl::batch(4)).memory().bytes().value() > 4000);
  fl::push_source<std::string> texts({.capacity = 1000});
  CHECK_THROWS_AS((texts | fl::prefetch(4)).finite({.memory_budget = 100'000'000}), std::invalid_argument);
  fl::push_source<std::string> short_ones({.capacity = 1000, .max_item_bytes = 1000});
  CHECK((short_ones | fl::prefetch(4)).memory().bytes().value() > 1'000'000);
  CHECK_THROWS_AS(fl::push_source<int>({.capacity = 0}), std::invalid_argument);
}

TEST_CASE("Items aren't held back when one live source follows another, or a filter removes some") {
  const watchdog guard("several live sources");
  fl::push_source<int> first, second;
  auto both = (fl::concat(first, second) | fl::prefetch(1000)).finite();
  for (int n = 0; n < 50; ++n) first.push(int(n));
  first.close();
  for (int n = 0; n < 50; ++n) REQUIRE(both.next() == n); // the second one has no items yet
  second.push(7);
  CHECK(both.next() == 7);

  fl::push_source<int> numbers;
  const auto even = numbers | fl::filter([](int n) { return n % 2 == 0; });
  auto filtered = (fl::concat(even, fl::from(count_to(2))) | fl::prefetch(1000)).finite();
  for (int n = 0; n < 40; ++n) numbers.push(int(n));
  for (int n = 0; n < 40; n += 2) REQUIRE(filtered.next() == n);
}

TEST_CASE("A wait for room can be unlimited") {
  const watchdog guard("a long wait");
  fl::push_source<int> numbers({.capacity = 1});
  numbers.push(1);
  auto status = fl::queue_status::success;
  std::thread producer([&] { status = numbers.push_for(2, std::chrono::nanoseconds::max()); });
  while (numbers.size_approx() != 1) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  numbers.close();
  producer.join();
  CHECK(status == fl::queue_status::closed);
}

namespace {

/// A live source that can save its position.
struct ticker {
  static constexpr fl::source_traits traits{.kind = "ticker", .live = true};

  std::optional<int> next() { return (*ticks)++; }

  void start_epoch(const fl::epoch&) { has_started->store(true); }

  void state(auto& archive) { archive(given); }

  std::shared_ptr<std::atomic<int>> ticks;
  int given = 0;
  std::shared_ptr<std::atomic<bool>> has_started = std::make_shared<std::atomic<bool>>(false);
};

} // namespace

TEST_CASE("A resumed run doesn't read items of a live source again") {
  const watchdog guard("a live source with a state");
  const auto ticks = std::make_shared<std::atomic<int>>(0);
  const auto pipeline = ticker{ticks} | fl::shuffle({.capacity = 20}) | fl::prefetch(1);
  std::set<int> seen;
  const fl::checkpoint place = [&] {
    auto first = pipeline.infinite();
    for (int i = 0; i < 30; ++i) seen.insert(*first.next());
    return first.checkpoint();
  }();
  auto again = pipeline.infinite({.resume = place});
  try {
    for (int i = 0; i < 30; ++i) CHECK(seen.insert(*again.next()).second);
  } catch (const fl::pipeline_error&) { // the items of the buffer can't be read again
  }
}

TEST_CASE(
    "A live source that can save its position isn't started after a stop, and all learn of the run's end") {
  std::stop_source stopped;
  stopped.request_stop();
  const ticker source{std::make_shared<std::atomic<int>>(0)};
  CHECK_FALSE((source | fl::prefetch(1)).infinite({.stop = stopped.get_token()}).next());
  CHECK_FALSE(*source.has_started);

  fl::push_source<int> numbers;
  CHECK_FALSE(doubled(numbers, 1).infinite({.stop = stopped.get_token()}).next());
  CHECK(numbers.push(1) == fl::queue_status::closed);

  fl::push_source<std::string> names; // of the files in a pool
  const fl::sliding_window_pool pool(names, {.window = 10});
  CHECK_FALSE((pool | fl::prefetch(1)).infinite({.stop = stopped.get_token()}).next());
  CHECK(names.push("a") == fl::queue_status::closed);
}

TEST_CASE("Producers don't wait for a run whose thread can't be started") {
  const watchdog guard("a run that doesn't begin");
  fl::push_source<int> numbers({.capacity = 1});
  {
    ::pthread_attr_t before, now;
    ::pthread_getattr_default_np(&before);
    ::pthread_attr_init(&now);
    ::pthread_attr_setstacksize(&now, std::size_t{1} << 47); // the address space has no room for it
    ::pthread_setattr_default_np(&now);
    CHECK(throws_saying<std::system_error>("can't start thread 1", [&] { doubled(numbers, 1).infinite(); }));
    ::pthread_setattr_default_np(&before);
    ::pthread_attr_destroy(&now);
    ::pthread_attr_destroy(&before);
  }
  CHECK(numbers.push(1) == fl::queue_status::closed);
  auto loader = doubled(numbers, 1).infinite();
  CHECK(numbers.push(1) == fl::queue_status::success);
  CHECK(loader.next() == 2);
}
