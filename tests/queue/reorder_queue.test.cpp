// SPDX-License-Identifier: MIT
#include <feedline/queue/reorder_queue.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <feedline/core/random.hpp>

#include "support/catch.hpp"
#include "support/parked.hpp"

using feedline::queue_status;
using feedline::reorder_queue;
using feedline::test::parking_thread;

namespace {

template <class T>
std::vector<T> drain(reorder_queue<T>& queue) {
  std::vector<T> items;
  for (T item{}; queue.try_pop(item) == queue_status::success;) items.push_back(std::move(item));
  return items;
}

} // namespace

TEST_CASE("items are popped in the order of their numbers", "[queue]") {
  reorder_queue<int> queue(4);
  int item = 0;
  REQUIRE(queue.try_push(2, 2) == queue_status::success);
  REQUIRE(queue.try_push(1, 1) == queue_status::success);
  REQUIRE(queue.try_pop(item) == queue_status::empty);
  REQUIRE(queue.try_push(3, 3) == queue_status::success);
  REQUIRE(queue.try_push(0, 0) == queue_status::success);
  REQUIRE(drain(queue) == std::vector{0, 1, 2, 3});
  REQUIRE(queue.try_pop(item) == queue_status::empty);
}

TEST_CASE("the push of a number that is too far ahead waits for the consumer", "[queue]") {
  reorder_queue<std::string> queue(3);
  std::string far = "five";
  REQUIRE(queue.try_push(5, std::move(far)) == queue_status::full);
  REQUIRE(far == "five");
  REQUIRE(queue.try_push(2, "two") == queue_status::success);
  REQUIRE(queue.try_push(2, "two again") == queue_status::full);
  {
    const parking_thread producer([&] { queue.push(3, "three"); });
    producer.await_parked();
    REQUIRE(queue.push(1, "one") == queue_status::success);
    REQUIRE(queue.push(0, "zero") == queue_status::success);
    std::string item;
    REQUIRE(queue.pop(item) == queue_status::success);
    REQUIRE(item == "zero");
  }
  REQUIRE(drain(queue) == std::vector<std::string>{"one", "two", "three"});
}

TEST_CASE("pushes of several rounds can wait for one slot", "[queue]") {
  reorder_queue<int> queue(2);
  {
    std::vector<std::unique_ptr<parking_thread>> producers;
    for (const std::uint64_t sequence : {7U, 3U, 5U, 1U})
      producers.push_back(std::make_unique<parking_thread>(
          [&, sequence] { queue.push(sequence, static_cast<int>(sequence)); }));
    for (int i = 0; i < 3; ++i) producers[static_cast<std::size_t>(i)]->await_parked();
    for (int expected = 0; expected < 8; ++expected) {
      if (expected % 2 == 0) queue.push(static_cast<std::uint64_t>(expected), int(expected));
      int item = -1;
      REQUIRE(queue.pop(item) == queue_status::success);
      REQUIRE(item == expected);
    }
  }
}

TEST_CASE("all parts of a number are popped before the next number", "[queue]") {
  reorder_queue<std::string> queue(2);
  REQUIRE(queue.try_push(1, "b") == queue_status::success);
  REQUIRE(queue.try_push(0, "a1", false) == queue_status::success);
  REQUIRE(queue.try_push(0, "a2", false) == queue_status::full);
  std::string item;
  REQUIRE(queue.pop(item) == queue_status::success);
  REQUIRE(item == "a1");
  REQUIRE(queue.try_pop(item) == queue_status::empty);
  REQUIRE(queue.try_push(2, "c") == queue_status::full);
  REQUIRE(queue.try_push(0, "a2") == queue_status::success);
  REQUIRE(drain(queue) == std::vector<std::string>{"a2", "b"});
  REQUIRE(queue.try_push(2, "c") == queue_status::success);
  REQUIRE(drain(queue) == std::vector<std::string>{"c"});
}

TEST_CASE("a closed reorder queue skips missing numbers", "[queue]") {
  reorder_queue<int> queue(5);
  queue.push(4, 4);
  queue.push(1, 1);
  queue.push(2, 2, false);
  queue.close();
  REQUIRE(queue.push(0, 0) == queue_status::closed);
  int item = 0;
  REQUIRE(queue.pop(item) == queue_status::success);
  REQUIRE(item == 1);
  REQUIRE(drain(queue) == std::vector{2, 4});
  REQUIRE(queue.pop(item) == queue_status::closed);
}

TEST_CASE("items of workers that finish in any order are popped in order", "[queue]") {
  const std::size_t capacity = GENERATE(1U, 2U, 5U, 64U);
  const bool end_in_between = GENERATE(false, true);
  constexpr std::uint64_t count = 20'000;
  reorder_queue<std::uint64_t> queue(capacity);
  std::atomic<std::uint64_t> next = 0;
  std::atomic<int> working = 4;
  const auto parts_of = [](std::uint64_t sequence) { return 1 + feedline::detail::mix(sequence) % 3; };
  std::vector<std::jthread> workers;
  for (int i = 0; i < 4; ++i)
    workers.emplace_back([&] {
      bool open = true;
      for (std::uint64_t sequence = next++; open && sequence < count; sequence = next++)
        for (std::uint64_t part = 0, parts = parts_of(sequence); open && part < parts; ++part)
          open = queue.push(sequence, sequence * 4 + part, part + 1 == parts) == queue_status::success;
      if (--working == 0) queue.close();
    });
  std::uint64_t sequence = 0;
  std::uint64_t part = 0;
  bool in_order = true;
  for (std::uint64_t item = 0; queue.pop(item) == queue_status::success;) {
    in_order = in_order && item == sequence * 4 + part++;
    if (part == parts_of(sequence)) {
      ++sequence;
      part = 0;
    }
    if (end_in_between && sequence == count / 2) queue.stop();
  }
  workers.clear();
  REQUIRE(in_order);
  REQUIRE(sequence == (end_in_between ? count / 2 : count));
}
