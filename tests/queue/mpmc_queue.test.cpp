// SPDX-License-Identifier: MIT
#include <feedline/queue/mpmc_queue.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <list>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/parked.hpp"
#include "support/watchdog.hpp"

using feedline::mpmc_queue;
using feedline::queue_status;
using feedline::test::parking_thread;
using feedline::test::watchdog;
using namespace std::chrono_literals;

TEST_CASE("a capacity that an mpmc queue can't count is refused", "[queue]") {
  CHECK_THROWS_AS(mpmc_queue<int>(std::size_t{1} << 31), std::invalid_argument);
}

TEST_CASE("each item wakes one of many parked consumers, and the others stay parked", "[queue]") {
  mpmc_queue<int> queue(8);
  std::list<parking_thread> consumers;
  for (int i = 0; i < 16; ++i)
    consumers.emplace_back([&] {
      int item = 0;
      queue.pop(item);
    });
  for (const auto& consumer : consumers) consumer.await_parked();
  const auto switches = [&] {
    std::vector<long> counts;
    for (const auto& consumer : consumers) counts.push_back(consumer.done() ? -1 : consumer.switches());
    return counts;
  };
  const auto await_done = [&](std::ptrdiff_t count) {
    const auto done = [&] {
      return std::count_if(consumers.begin(), consumers.end(),
                           [](auto& consumer) { return consumer.done(); });
    };
    while (done() < count) std::this_thread::yield();
  };

  const auto before = switches();
  std::ptrdiff_t woken = 0;
  for (const std::size_t count : {1U, 1U, 3U, 5U}) {
    std::array<int, 5> some{};
    if (count == 1) queue.push(1);
    else queue.push_bulk(std::span(some).first(count));
    woken += static_cast<std::ptrdiff_t>(count);
    await_done(woken);
    const auto after = switches();
    std::ptrdiff_t same = 0;
    for (std::size_t i = 0; i < before.size(); ++i) same += before[i] == after[i] ? 1 : 0;
    REQUIRE(same == 16 - woken);
  }
  queue.close();
}

TEST_CASE("each slot that becomes free wakes one of many parked producers", "[queue]") {
  mpmc_queue<int> queue(2);
  queue.push(0);
  queue.push(0);
  std::list<parking_thread> producers;
  std::atomic<int> pushed = 0;
  for (int i = 0; i < 8; ++i)
    producers.emplace_back([&] {
      if (queue.push(1) == queue_status::success) ++pushed;
    });
  for (const auto& producer : producers) producer.await_parked();
  int item = 0;
  for (int taken = 1; taken <= 3; ++taken) {
    REQUIRE(queue.pop(item) == queue_status::success);
    while (pushed < taken) std::this_thread::yield();
    REQUIRE(queue.size_approx() == 2);
  }
  queue.stop();
  producers.clear();
  REQUIRE(pushed == 3);
}

TEST_CASE("four threads send numbers to four others, and their sum is right", "[queue]") {
  constexpr long count = 20'000;
  mpmc_queue<long> queue(5);
  std::atomic<long> sum = 0;
  std::atomic<int> producing = 4;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (long number = 1; number <= count; ++number) queue.push(number);
        if (--producing == 0) queue.close();
      });
      threads.emplace_back([&] {
        for (long number = 0; queue.pop(number) == queue_status::success;) sum += number;
      });
    }
  }
  REQUIRE(sum == 4 * count * (count + 1) / 2);
}

namespace {

// A move of this item waits while `gate` is shut, as if its thread had lost the processor in the middle.
struct gated_item {
  explicit gated_item(std::atomic<bool>& the_gate) noexcept : gate(&the_gate) {}

  gated_item(gated_item&& other) noexcept : gate(other.gate) { gate->wait(true); }

  gated_item& operator=(gated_item&&) noexcept = default;

  std::atomic<bool>* gate; // true: shut
};

using gated_queue = mpmc_queue<gated_item>;

// Makes two calls wait for one that moves an item slowly, calls `meanwhile`, lets the slow one end, and returns what
// the two returned.
template <class Slow, class Other, class Meanwhile>
std::array<queue_status, 2> behind(std::atomic<bool>& gate, Slow slow, Other other, Meanwhile meanwhile) {
  std::array<queue_status, 2> statuses{};
  gate = true;
  const parking_thread first(slow);
  first.await_parked();
  {
    std::list<parking_thread> others;
    for (queue_status& status : statuses) others.emplace_back([&] { status = other(); });
    for (const auto& thread : others) thread.await_parked();
    meanwhile();
    gate = false;
    gate.notify_all();
  }
  return statuses;
}

} // namespace

TEST_CASE("threads that wait for another one's move continue when it ends", "[queue]") {
  const watchdog guard("wait for a move");
  using both = std::array<queue_status, 2>;
  const int more = GENERATE(0, 1, 2); // is left for the two
  const auto count = [&](const both& statuses, queue_status status) {
    return std::count(statuses.begin(), statuses.end(), status);
  };
  std::atomic<bool> gate = false;
  gated_queue queue(static_cast<std::size_t>(1 + more));
  const auto push = [&] { return queue.try_push(gated_item(gate)); };
  const auto pop = [&] {
    gated_item item(gate);
    return queue.try_pop(item);
  };
  const both pushed = behind(gate, push, push, [] {});
  CHECK(count(pushed, queue_status::success) == more);
  CHECK(count(pushed, queue_status::full) == 2 - more);
  CHECK(queue.size_approx() == queue.capacity());
  const both popped = behind(gate, pop, pop, [] {});
  CHECK(count(popped, queue_status::success) == more);
  CHECK(count(popped, queue_status::empty) == 2 - more);
  CHECK(queue.size_approx() == 0);
}

TEST_CASE("threads that wait for another one's move notice the end of the stream", "[queue]") {
  const watchdog guard("end during a move");
  const bool stopped = GENERATE(false, true);
  std::atomic<bool> gate = false;
  gated_queue queue(10);
  gated_item item(gate);
  const auto end = [&] { stopped ? queue.stop() : queue.close(); };
  const std::array all_closed{queue_status::closed, queue_status::closed};
  CHECK(behind(
            gate, [&] { queue.push(gated_item(gate)); }, [&] { return queue.push(gated_item(gate)); }, end) ==
        all_closed);
  CHECK(queue.pop(item) == (stopped ? queue_status::closed : queue_status::success));
  CHECK(queue.pop(item) == queue_status::closed);

  gated_queue last(10);
  last.push(gated_item(gate));
  last.close();
  const auto pop = [&] {
    gated_item mine(gate);
    return last.pop(mine);
  };
  CHECK(behind(gate, pop, pop, [&] { stopped ? last.stop() : last.close(); }) == all_closed);
}

TEST_CASE("a slow move on one side holds up neither the other side nor the end", "[queue]") {
  const watchdog guard("slow move");
  std::atomic<bool> gate = true, open = false;
  gated_queue queue(2);
  gated_item item(open);
  queue.push(gated_item(open));
  queue_status pushed = queue_status::closed;
  std::array<queue_status, 3> popped{};
  {
    const parking_thread producer([&] { pushed = queue.push(gated_item(gate)); });
    producer.await_parked();
    CHECK(queue.try_pop(item) == queue_status::success);
    CHECK(queue.try_pop(item) == queue_status::empty);
    queue.close();
    CHECK(queue.try_pop(item) == queue_status::empty); // the item in hand will arrive
    std::list<parking_thread> consumers;
    for (queue_status& status : popped)
      consumers.emplace_back([&] {
        gated_item mine(open);
        status = queue.pop(mine);
      });
    for (const auto& consumer : consumers) consumer.await_parked();
    gate = false;
    gate.notify_all();
  }
  CHECK(pushed == queue_status::success);
  CHECK(std::count(popped.begin(), popped.end(), queue_status::success) == 1);
  CHECK(std::count(popped.begin(), popped.end(), queue_status::closed) == 2);
}

namespace {

// An item whose moves sometimes let other threads run.
struct yielding_item {
  yielding_item(long the_number = 0) noexcept : number(the_number) {}

  yielding_item(yielding_item&& other) noexcept : number(other.number) { yield(); }

  yielding_item& operator=(yielding_item&& other) noexcept {
    number = other.number;
    yield();
    return *this;
  }

  static void yield() {
    thread_local unsigned moves = 0;
    if (++moves % 50 == 0) std::this_thread::yield();
  }

  long number;
};

} // namespace

TEST_CASE("no item and no wake-up is lost among threads that only push or pop", "[queue]") {
  const int side = GENERATE(1, 2, 64);
  const std::size_t capacity = GENERATE(1U, 3U, 200U);
  const bool timed = GENERATE(false, true);
  const watchdog guard("only push or pop");
  const int share = 6'400 / side; // of each thread
  mpmc_queue<yielding_item> queue(capacity);
  std::atomic<long> sum = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < side; ++i) {
      threads.emplace_back([&] {
        std::array<yielding_item, 3> some;
        for (int next = 0; next < share;) {
          const auto count = static_cast<std::size_t>(std::min(next % 4, share - next));
          for (std::size_t k = 0; k < some.size(); ++k) some[k].number = next + static_cast<int>(k);
          if (count > 1) queue.push_bulk(std::span(some).first(count));
          else if (!timed) queue.push(std::move(some[0]));
          else
            while (queue.push_for(std::move(some[0]), 1us) != queue_status::success) {
            }
          next += std::max(1, static_cast<int>(count));
        }
      });
      threads.emplace_back([&] {
        std::array<yielding_item, 3> some;
        long mine = 0;
        for (int taken = 0; taken < share;) {
          std::size_t count = 1;
          if (taken % 4 > 1)
            count =
                queue.pop_bulk(std::span(some).first(static_cast<std::size_t>(std::min(3, share - taken))));
          else if (!timed) queue.pop(some[0]);
          else
            while (queue.pop_for(some[0], 1us) != queue_status::success) {
            }
          for (std::size_t k = 0; k < count; ++k) mine += some[k].number;
          taken += static_cast<int>(count);
        }
        sum += mine;
      });
    }
  }
  CHECK(sum == side * (share * (share - 1L) / 2));
  CHECK(queue.size_approx() == 0);
}
