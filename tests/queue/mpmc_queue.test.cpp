// SPDX-License-Identifier: MIT
#include <feedline/queue/mpmc_queue.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <list>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/parked.hpp"

using feedline::mpmc_queue;
using feedline::queue_status;
using feedline::test::parking_thread;

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
