// SPDX-License-Identifier: MIT
// The promises of every queue, with a plain mutex queue as the reference. conformance_rounds.test.cpp checks
// the same promises under random interleavings.
#include <feedline/queue/queue_status.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/lifetimes.hpp"
#include "support/parked.hpp"
#include "support/queue_kinds.hpp"

using feedline::queue_status;
using namespace feedline::test;
using namespace std::chrono_literals;

#define EVERY_QUEUE spsc_kind, fenced_spsc_kind, mpmc_kind, reorder_kind, mutex_kind

namespace {

template <class Queue>
std::vector<int> drain(Queue& queue) {
  std::vector<int> values;
  counted_item item;
  while (queue.try_pop(item) == queue_status::success) values.push_back(item.value());
  return values;
}

std::vector<counted_item> items(lifetimes& all, int first, int count) {
  std::vector<counted_item> made;
  for (int i = 0; i < count; ++i) made.emplace_back(all, first + i);
  return made;
}

std::vector<int> numbers(int first, int count) {
  std::vector<int> made;
  for (int i = 0; i < count; ++i) made.push_back(first + i);
  return made;
}

} // namespace

TEMPLATE_TEST_CASE("a queue can be neither copied nor moved", "[queue]", EVERY_QUEUE) {
  using queue = typename TestType::template queue<counted_item>;
  STATIC_REQUIRE(!std::is_copy_constructible_v<queue>);
  STATIC_REQUIRE(!std::is_move_constructible_v<queue>);
  STATIC_REQUIRE(!std::is_copy_assignable_v<queue>);
  STATIC_REQUIRE(!std::is_move_assignable_v<queue>);
  STATIC_REQUIRE(!std::is_convertible_v<std::size_t, queue>);
}

TEMPLATE_TEST_CASE("a queue of capacity 0 is refused", "[queue]", EVERY_QUEUE) {
  using queue = typename TestType::template queue<counted_item>;
  CHECK_THROWS_AS(queue(0), std::invalid_argument);
}

TEMPLATE_TEST_CASE("a queue holds exactly its capacity", "[queue]", EVERY_QUEUE) {
  const std::size_t capacity = GENERATE(1U, 2U, 3U, 7U, 8U, 33U, 1000U);
  lifetimes all;
  typename TestType::template queue<counted_item> queue(capacity);
  REQUIRE(queue.capacity() == capacity);
  for (int lap = 0; lap < 3; ++lap) {
    for (std::size_t i = 0; i < capacity; ++i)
      REQUIRE(queue.try_push(counted_item(all, static_cast<int>(i))) == queue_status::success);
    REQUIRE(queue.size_approx() == capacity);
    counted_item refused(all, 4711);
    REQUIRE(queue.try_push(std::move(refused)) == queue_status::full);
    REQUIRE(refused.value() == 4711);
    counted_item item;
    REQUIRE(queue.pop(item) == queue_status::success);
    REQUIRE(queue.try_push(std::move(refused)) == queue_status::success);
    REQUIRE(queue.try_push(counted_item(all, 0)) == queue_status::full);
    auto expected = numbers(1, static_cast<int>(capacity) - 1);
    expected.push_back(4711);
    REQUIRE(drain(queue) == expected);
    REQUIRE(queue.try_pop(item) == queue_status::empty);
    REQUIRE(queue.size_approx() == 0);
  }
}

TEMPLATE_TEST_CASE("a queue passes on items of a type that is neither copyable nor default-constructible",
                   "[queue]", EVERY_QUEUE) {
  struct item {
    explicit item(int number) : value(std::make_unique<int>(number)) {}

    std::unique_ptr<int> value;
  };

  typename TestType::template queue<item> queue(2);
  REQUIRE(queue.push(item(5)) == queue_status::success);
  item taken(0);
  REQUIRE(queue.pop(taken) == queue_status::success);
  REQUIRE(*taken.value == 5);
}

TEMPLATE_TEST_CASE("bulk operations move as many items as fit, in order", "[queue]", EVERY_QUEUE) {
  const int capacity = GENERATE(1, 3, 5, 8);
  lifetimes all;
  typename TestType::template queue<counted_item> queue(static_cast<std::size_t>(capacity));
  for (int lap = 0; lap < 5; ++lap) {
    auto offered = items(all, 0, 7);
    const int fits = std::min(7, capacity);
    REQUIRE(queue.try_push_bulk(offered) == static_cast<std::size_t>(fits));
    for (int i = 0; i < 7; ++i) REQUIRE(offered[static_cast<std::size_t>(i)].value() == (i < fits ? -1 : i));
    std::vector<counted_item> taken(2);
    const int first = std::min(2, fits);
    REQUIRE(queue.pop_bulk(taken) == static_cast<std::size_t>(first));
    REQUIRE(taken[0].value() == 0);
    std::vector<counted_item> rest(9);
    REQUIRE(queue.try_pop_bulk(rest) == static_cast<std::size_t>(fits - first));
    for (int i = first; i < fits; ++i) REQUIRE(rest[static_cast<std::size_t>(i - first)].value() == i);
    REQUIRE(queue.try_pop_bulk(rest) == 0);
  }
  std::vector<counted_item> none;
  REQUIRE(queue.push_bulk(none) == 0);
  REQUIRE(queue.pop_bulk(none) == 0);
}

TEMPLATE_TEST_CASE("a closed queue refuses new items and delivers those inside", "[queue]", EVERY_QUEUE) {
  lifetimes all;
  typename TestType::template queue<counted_item> queue(4);
  REQUIRE_FALSE(queue.is_closed());
  for (int i = 0; i < 3; ++i) queue.push(counted_item(all, i));
  queue.close();
  queue.close();
  REQUIRE(queue.is_closed());
  auto refused = items(all, 10, 2);
  REQUIRE(queue.push(std::move(refused[0])) == queue_status::closed);
  REQUIRE(queue.try_push(std::move(refused[0])) == queue_status::closed);
  REQUIRE(queue.push_bulk(refused) == 0);
  REQUIRE(queue.try_push_bulk(refused) == 0);
  REQUIRE(refused[0].value() == 10);
  REQUIRE(drain(queue) == numbers(0, 3));
  counted_item item;
  REQUIRE(queue.try_pop(item) == queue_status::closed);
  REQUIRE(queue.pop(item) == queue_status::closed);
  REQUIRE(queue.try_pop_bulk(refused) == 0);
  REQUIRE(queue.pop_bulk(refused) == 0);
  REQUIRE(queue.push(std::move(refused[0])) == queue_status::closed);
}

TEMPLATE_TEST_CASE("a full queue that is closed returns closed", "[queue]", EVERY_QUEUE) {
  lifetimes all;
  typename TestType::template queue<counted_item> queue(1);
  queue.push(counted_item(all, 0));
  queue.close();
  REQUIRE(queue.try_push(counted_item(all, 1)) == queue_status::closed);
}

TEMPLATE_TEST_CASE("a stopped queue returns closed, and its destructor destroys its items", "[queue]",
                   EVERY_QUEUE) {
  const bool closed_before = GENERATE(false, true);
  lifetimes all;
  {
    typename TestType::template queue<counted_item> queue(4);
    for (int i = 0; i < 3; ++i) queue.push(counted_item(all, i));
    if (closed_before) queue.close();
    queue.stop();
    REQUIRE(queue.is_closed());
    counted_item item(all, 10);
    REQUIRE(queue.push(std::move(item)) == queue_status::closed);
    REQUIRE(queue.try_push(std::move(item)) == queue_status::closed);
    REQUIRE(item.value() == 10);
    REQUIRE(queue.pop(item) == queue_status::closed);
    REQUIRE(queue.try_pop(item) == queue_status::closed);
    std::vector<counted_item> some(2);
    REQUIRE(queue.pop_bulk(some) == 0);
    REQUIRE(queue.try_pop_bulk(some) == 0);
    REQUIRE(item.value() == 10);
    REQUIRE(all.live() == 4);
  }
  REQUIRE(all.live() == 0);
}

TEMPLATE_TEST_CASE("a queue that is made with a stopped token is stopped", "[queue]", EVERY_QUEUE) {
  std::stop_source source;
  source.request_stop();
  typename TestType::template queue<int> queue(2, source.get_token());
  int item = 0;
  REQUIRE(queue.push(1) == queue_status::closed);
  REQUIRE(queue.pop(item) == queue_status::closed);
}

TEMPLATE_TEST_CASE("items left inside are destroyed with the queue", "[queue]", EVERY_QUEUE) {
  lifetimes all;
  {
    typename TestType::template queue<counted_item> queue(5);
    counted_item item;
    for (int i = 0; i < 4; ++i) queue.push(counted_item(all, i));
    for (int i = 0; i < 3; ++i) queue.pop(item);
    for (int i = 0; i < 3; ++i) queue.push(counted_item(all, i));
    REQUIRE(all.live() == 5); // four inside, one in hand
  }
  REQUIRE(all.live() == 0);
}

namespace {

enum class ending { close, stop, token };
enum class form { single, bulk, timed };

constexpr auto long_time = 200s; // so that a lost wake-up hangs instead of timing out

// Parks as many threads as the queue admits on one side, calls `meanwhile`, ends the queue and checks what
// their calls returned. All waits here are for events that a broken queue would not produce: the test would
// hang.
template <class Kind, class Meanwhile>
void end_while_parked(bool producers, form called, ending how, Meanwhile meanwhile) {
  lifetimes all;
  std::stop_source source;
  typename Kind::template queue<counted_item> queue(3, source.get_token());
  const int side = producers ? Kind::producers : Kind::consumers;
  const int count = side == 1 ? 1 : 16;
  if (producers)
    for (int i = 0; i < 3; ++i) queue.push(counted_item(all, i));

  std::vector<queue_status> statuses(static_cast<std::size_t>(count), queue_status::success);
  {
    std::list<parking_thread> threads;
    for (queue_status& status : statuses)
      threads.emplace_back([&, producers, called] {
        auto some = items(all, 100, 2);
        if (called == form::single) status = producers ? queue.push(std::move(some[0])) : queue.pop(some[0]);
        else if (called == form::timed)
          status =
              producers ? queue.push_for(std::move(some[0]), long_time) : queue.pop_for(some[0], long_time);
        else if ((producers ? queue.push_bulk(some) : queue.pop_bulk(some)) == 0)
          status = queue_status::closed;
        if (some[0].value() != 100) status = queue_status::full; // closed leaves the item as it was
      });
    for (const auto& thread : threads) thread.await_parked();
    meanwhile(threads);
    if (how == ending::close) queue.close();
    if (how == ending::stop) queue.stop();
    if (how == ending::token) source.request_stop();
  }
  for (const queue_status status : statuses) REQUIRE(status == queue_status::closed);
  if (producers && how == ending::close) REQUIRE(drain(queue) == numbers(0, 3));
}

} // namespace

TEMPLATE_TEST_CASE("close and stop wake every parked thread", "[queue]", EVERY_QUEUE) {
  const bool producers = GENERATE(false, true);
  const auto called = GENERATE(form::single, form::bulk, form::timed);
  const auto how = GENERATE(ending::close, ending::stop, ending::token);
  end_while_parked<TestType>(producers, called, how, [](auto&) {});
}

TEMPLATE_TEST_CASE("parked threads use no processor time", "[queue]", EVERY_QUEUE) {
  const bool producers = GENERATE(false, true);
  const auto called = GENERATE(form::single, form::timed);
  end_while_parked<TestType>(producers, called, ending::close, [](auto& threads) {
    const auto used = [&threads] {
      std::vector<long> all;
      for (auto& thread : threads) all.insert(all.end(), {thread.cpu_time(), thread.switches()});
      return all;
    };
    bool is_idle = false; // a thread may have slept elsewhere, on its way to the queue
    for (int times = 0; times < 10 && !is_idle; ++times) {
      const std::vector<long> before = used();
      burn(50);
      is_idle = used() == before;
    }
    CHECK(is_idle); // not REQUIRE, which would leave them parked
  });
}

TEMPLATE_TEST_CASE("a parked consumer receives the next item, a parked producer fills the next free slot",
                   "[queue]", EVERY_QUEUE) {
  lifetimes all;
  typename TestType::template queue<counted_item> queue(1);
  const bool timed = GENERATE(false, true);
  for (int round = 0; round < 50; ++round) {
    counted_item taken;
    {
      const parking_thread consumer([&] { timed ? queue.pop_for(taken, long_time) : queue.pop(taken); });
      consumer.await_parked();
      REQUIRE(queue.try_push(counted_item(all, round)) == queue_status::success);
    }
    REQUIRE(taken.value() == round);
    REQUIRE(queue.try_push(counted_item(all, 1)) == queue_status::success);
    {
      const parking_thread producer([&] {
        counted_item item(all, 2);
        timed ? queue.push_for(std::move(item), long_time) : queue.push(std::move(item));
      });
      producer.await_parked();
      REQUIRE(queue.try_pop(taken) == queue_status::success);
    }
    REQUIRE(drain(queue) == numbers(2, 1));
  }
}

TEMPLATE_TEST_CASE("a timed push or pop gives up after its time has passed, not before", "[queue]",
                   EVERY_QUEUE) {
  const auto time = GENERATE(values<std::chrono::nanoseconds>({-1h, 0ns, 1ns, 20us, 3ms}));
  lifetimes all;
  typename TestType::template queue<counted_item> queue(1);
  const auto start = std::chrono::steady_clock::now();
  const auto passed = [&] { return std::chrono::steady_clock::now() - start; };
  counted_item item(all, 1);
  REQUIRE(queue.pop_for(item, time) == queue_status::empty);
  REQUIRE(passed() >= time);
  REQUIRE(item.value() == 1);
  REQUIRE(queue.push_for(std::move(item), time) == queue_status::success);
  counted_item refused(all, 2);
  REQUIRE(queue.push_for(std::move(refused), time) == queue_status::full);
  REQUIRE(passed() >= 2 * time);
  REQUIRE(refused.value() == 2);
  REQUIRE(queue.pop_for(item, time) == queue_status::success);
  REQUIRE(item.value() == 1);
  queue.close();
  REQUIRE(queue.push_for(std::move(refused), time) == queue_status::closed);
  REQUIRE(refused.value() == 2);
  REQUIRE(queue.pop_for(item, time) == queue_status::closed);
}

TEMPLATE_TEST_CASE("a timeout beyond the clock's range never ends the wait", "[queue]", spsc_kind,
                   fenced_spsc_kind, mpmc_kind, reorder_kind) {
  lifetimes all;
  typename TestType::template queue<counted_item> queue(1);
  counted_item taken;
  queue_status status = queue_status::full;
  {
    const parking_thread consumer([&] { status = queue.pop_for(taken, std::chrono::nanoseconds::max()); });
    consumer.await_parked();
    REQUIRE(queue.push_for(counted_item(all, 7), std::chrono::nanoseconds::max()) == queue_status::success);
  }
  REQUIRE(status == queue_status::success);
  REQUIRE(taken.value() == 7);
}

TEMPLATE_TEST_CASE("a thread that gives up takes no wake-up from the threads that still wait", "[queue]",
                   mpmc_kind, mutex_kind) {
  lifetimes all;
  typename TestType::template queue<counted_item> queue(4);
  std::vector<counted_item> taken(2);
  {
    std::atomic<bool> over = false;
    std::list<parking_thread> hasty, patient;
    for (counted_item& item : taken) patient.emplace_back([&] { queue.pop(item); });
    for (const auto& thread : patient) thread.await_parked();
    for (int i = 0; i < 4; ++i)
      hasty.emplace_back([&] {
        for (counted_item item; !over;)
          if (queue.pop_for(item, 1us) == queue_status::success) queue.push(std::move(item));
      });
    for (int i = 0; i < 2; ++i) queue.push(counted_item(all, i));
    patient.clear();
    over = true;
  }
  REQUIRE(taken[0].value() + taken[1].value() == 1);
}

namespace {

// An item that ends its queue in the middle of its own push, as another thread might.
template <class Kind>
struct intruder {
  using queue = typename Kind::template queue<intruder>;

  explicit intruder(int value) noexcept : number(value) {}

  intruder(intruder&& other) noexcept : target(other.target), number(other.number), seen(other.seen) {
    if (queue* const ended = std::exchange(other.target, nullptr); ended != nullptr) {
      target = nullptr;
      ended->close();
      intruder taken(0);
      *seen = ended->try_pop(taken);
    }
  }

  intruder& operator=(intruder&& other) noexcept = default;

  queue* target = nullptr;
  int number;
  queue_status* seen = nullptr;
};

} // namespace

TEMPLATE_TEST_CASE("an item whose push overlaps the end is delivered, or refused and left intact", "[queue]",
                   spsc_kind, fenced_spsc_kind, mpmc_kind, reorder_kind) {
  const bool bulk = GENERATE(false, true);
  typename intruder<TestType>::queue queue(2);
  queue_status seen = queue_status::full;
  intruder<TestType> item(5);
  item.target = &queue;
  item.seen = &seen;
  const bool pushed =
      bulk ? queue.try_push_bulk({&item, 1}) == 1 : queue.try_push(std::move(item)) == queue_status::success;
  intruder<TestType> taken(0);
  if (pushed) {
    REQUIRE(seen == queue_status::empty);
    REQUIRE(queue.pop(taken) == queue_status::success);
    REQUIRE(taken.number == 5);
  } else {
    REQUIRE(seen == queue_status::closed);
    REQUIRE(item.number == 5);
  }
  REQUIRE(queue.pop(taken) == queue_status::closed);
}
