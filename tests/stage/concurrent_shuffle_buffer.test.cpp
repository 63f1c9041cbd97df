// SPDX-License-Identifier: MIT
#include <feedline/stage/concurrent_shuffle_buffer.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/lifetimes.hpp"
#include "support/parked.hpp"

namespace fl = feedline;
using namespace std::chrono_literals;
using buffer = fl::concurrent_shuffle_buffer<int>;
using fl::queue_status;
using fl::test::parking_thread;

static_assert(!std::is_copy_constructible_v<buffer>);
static_assert(!std::is_move_constructible_v<buffer>);

namespace {

constexpr auto long_time = 200s; // a hang rather than a timeout

void fill(buffer& b, int count) {
  for (int i = 0; i < count; ++i) REQUIRE(b.push(i));
}

/// Closes the buffer and returns the items left inside.
std::vector<int> drain(buffer& b) {
  b.close();
  std::vector<int> items;
  while (const auto item = b.try_pop(0s)) items.push_back(*item);
  return items;
}

} // namespace

TEST_CASE("a concurrent shuffle buffer refuses a capacity of 0 and a min_fill above the capacity") {
  CHECK_THROWS_AS(buffer({.capacity = 0}), std::invalid_argument);
  CHECK_THROWS_AS(buffer({.capacity = 2, .min_fill = 3}), std::invalid_argument);
  CHECK(buffer({.capacity = 3, .min_fill = 3}).capacity() == 3);
}

TEST_CASE("try_pop returns nothing after a timeout while fewer than min_fill items are inside") {
  buffer b({.capacity = 5, .min_fill = 3});
  CHECK_FALSE(b.try_pop(0s));
  fill(b, 2);
  CHECK_FALSE(b.try_pop(0s));
  CHECK_FALSE(b.try_pop(1ms));
  CHECK_FALSE(b.try_pop(-1s));
  CHECK(b.size_approx() == 2);
  fill(b, 1);
  CHECK(b.try_pop(0s));
  CHECK_FALSE(b.try_pop(0s));
  CHECK(b.size_approx() == 2);
}

TEST_CASE("without a minimum try_pop returns any item inside") {
  buffer b({.capacity = 5});
  CHECK_FALSE(b.try_pop(0s));
  fill(b, 1);
  CHECK(b.try_pop(0s) == 0);
  CHECK_FALSE(b.try_pop(0s));
}

TEST_CASE("try_pop takes a timeout of any length and unit") {
  buffer b({.capacity = 2});
  fill(b, 2);
  CHECK(b.try_pop(std::chrono::nanoseconds::max()));
  CHECK(b.try_pop(std::chrono::hours::max()));
  CHECK_FALSE(b.try_pop(std::chrono::duration<double>(1e-3)));
  CHECK_FALSE(b.try_pop(std::chrono::microseconds::min()));
  std::optional<int> taken;
  {
    parking_thread taker([&] { taken = b.try_pop(std::chrono::nanoseconds::max()); });
    taker.await_parked();
    fill(b, 1);
  }
  CHECK(taken == 0);
}

TEST_CASE("a closed buffer refuses new items, leaves them unchanged, and returns all items that are left") {
  fl::concurrent_shuffle_buffer<std::unique_ptr<int>> b({.capacity = 5, .min_fill = 4});
  CHECK_FALSE(b.is_closed());
  CHECK(b.push(std::make_unique<int>(1)));
  CHECK(b.push(std::make_unique<int>(2)));
  b.close();
  b.close();
  CHECK(b.is_closed());
  auto item = std::make_unique<int>(3);
  CHECK_FALSE(b.push(std::move(item)));
  REQUIRE(item);
  CHECK(*item == 3);
  const auto one = b.try_pop(long_time), two = b.try_pop(long_time);
  REQUIRE((one && two));
  CHECK(**one + **two == 3);
  CHECK_FALSE(b.try_pop(long_time));
}

TEST_CASE("push_for and pop_for wait for a time, and leave the item unchanged after a timeout") {
  fl::concurrent_shuffle_buffer<std::unique_ptr<int>> b({.capacity = 2, .min_fill = 2});
  const auto start = std::chrono::steady_clock::now();
  auto one = std::make_unique<int>(1), two = std::make_unique<int>(2), three = std::make_unique<int>(3);
  std::unique_ptr<int> taken;
  CHECK(b.push_for(std::move(one), 0s) == queue_status::success);
  CHECK(b.pop_for(taken, 1ms) == queue_status::empty);
  CHECK_FALSE(taken);
  CHECK(b.push_for(std::move(two), std::chrono::nanoseconds::max()) == queue_status::success);
  CHECK(b.push_for(std::move(three), 1ms) == queue_status::full);
  REQUIRE(three);
  CHECK(b.push_for(std::move(three), -1h) == queue_status::full);
  REQUIRE(three);
  CHECK(std::chrono::steady_clock::now() - start >= 2ms);
  CHECK(b.pop_for(taken, std::chrono::nanoseconds::max()) == queue_status::success);
  REQUIRE(taken);
  b.close();
  CHECK(b.push_for(std::move(three), long_time) == queue_status::closed);
  REQUIRE(three);
  CHECK(b.pop_for(taken, long_time) == queue_status::success);
  CHECK(b.pop_for(taken, long_time) == queue_status::closed);
}

TEST_CASE("a timed push gets the next free slot, a timed pop the next item") {
  buffer b({.capacity = 1});
  int taken = -1;
  {
    parking_thread consumer([&] { b.pop_for(taken, long_time); });
    consumer.await_parked();
    fill(b, 1);
  }
  CHECK(taken == 0);
  fill(b, 1);
  {
    parking_thread producer([&] { b.push_for(5, long_time); });
    producer.await_parked();
    CHECK(b.try_pop(0s) == 0);
  }
  CHECK(b.try_pop(0s) == 5);
}

TEST_CASE("push waits while the buffer is full") {
  buffer b({.capacity = 2});
  fill(b, 2);
  std::atomic<bool> accepted = false;
  parking_thread producer([&] { accepted = b.push(2); });
  producer.await_parked();
  CHECK_FALSE(accepted);
  CHECK(b.size_approx() == 2);
  CHECK(b.try_pop(0s));
  CHECK(b.try_pop(long_time));
  CHECK(b.try_pop(long_time));
  CHECK_FALSE(b.try_pop(0s));
}

TEST_CASE("the item that reaches min_fill wakes a waiting consumer") {
  buffer b({.capacity = 4, .min_fill = 3});
  std::atomic<int> taken = 0;
  const auto take = [&] { taken += b.try_pop(long_time).has_value(); };
  {
    parking_thread one(take), two(take);
    one.await_parked();
    two.await_parked();
    fill(b, 3); // one of them leaves too few for the other
    fill(b, 1);
  }
  CHECK(taken == 2);
  CHECK(drain(b).size() == 2);
}

TEST_CASE("close wakes producers and consumers") {
  buffer full({.capacity = 1}), empty({.capacity = 2, .min_fill = 2});
  fill(full, 1);
  fill(empty, 1);
  std::atomic<int> refused = 0, given = 0;
  {
    const auto push = [&] { refused += !full.push(7); };
    const auto push_for = [&] { refused += full.push_for(7, long_time) == queue_status::closed; };
    const auto take = [&] { given += empty.try_pop(long_time).has_value(); };
    const auto pop_for = [&] {
      int item = 0;
      given += empty.pop_for(item, long_time) == queue_status::success;
    };
    parking_thread p1(push), p2(push_for), c1(take), c2(pop_for);
    for (const auto* thread : {&p1, &p2, &c1, &c2}) thread->await_parked();
    full.close();
    empty.close();
  }
  CHECK(refused == 2);
  CHECK(given == 1); // the one that was left
  CHECK(drain(full) == std::vector{0});
}

TEST_CASE("stop wakes producers and consumers, and consumers get no more items") {
  const bool by_token = GENERATE(false, true);
  std::stop_source source;
  buffer full({.capacity = 1}, 0, source.get_token()),
      empty({.capacity = 2, .min_fill = 2}, 0, source.get_token());
  fill(full, 1);
  fill(empty, 1);
  std::atomic<int> refused = 0, given = 0;
  {
    const auto push = [&] { refused += full.push_for(7, long_time) == queue_status::closed; };
    const auto take = [&] { given += empty.try_pop(long_time).has_value(); };
    parking_thread p1(push), p2(push), c1(take), c2(take);
    for (const auto* thread : {&p1, &p2, &c1, &c2}) thread->await_parked();
    if (by_token) source.request_stop();
    full.stop();
    empty.stop();
  }
  CHECK(refused == 2);
  CHECK(given == 0);
  CHECK(full.is_closed());
  CHECK_FALSE(full.push(8));
  int item = 0;
  CHECK(full.pop_for(item, long_time) == queue_status::closed);
}

TEST_CASE("a buffer made with a stopped token is stopped") {
  std::stop_source source;
  source.request_stop();
  buffer b({.capacity = 1}, 0, source.get_token());
  CHECK_FALSE(b.push(1));
  CHECK_FALSE(b.try_pop(long_time));
}

TEST_CASE("the order of items depends on the seed") {
  const auto order = [](std::uint64_t seed) {
    buffer b({.capacity = 100}, seed);
    fill(b, 100);
    return drain(b);
  };
  CHECK(order(1) == order(1));
  CHECK(order(1) != order(2));
  auto items = order(1);
  std::sort(items.begin(), items.end());
  for (int i = 0; i < 100; ++i) REQUIRE(items[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("each item inside is equally likely to be next") {
  constexpr std::size_t size = 10;
  constexpr int rounds = 10'000;
  std::vector<double> seen(size * size);
  for (int round = 0; round < rounds; ++round) {
    buffer b({.capacity = size, .min_fill = size}, static_cast<std::uint64_t>(round));
    fill(b, size);
    std::size_t place = 0;
    for (const int item : drain(b)) ++seen[static_cast<std::size_t>(item) * size + place++];
  }
  const double expected = rounds / static_cast<double>(size);
  double statistic = 0;
  for (const double s : seen) statistic += (s - expected) * (s - expected) / expected;
  const double freedom = (size - 1) * (size - 1);
  CHECK(std::abs(statistic - freedom) < 4 * std::sqrt(2 * freedom));
}

TEST_CASE("with many producers and consumers nothing is lost or doubled") {
  constexpr int each = 5000;
  for (const fl::shuffle_options options :
       {fl::shuffle_options{.capacity = 1}, fl::shuffle_options{.capacity = 16, .min_fill = 16},
        fl::shuffle_options{.capacity = 64, .min_fill = 7}}) {
    fl::test::lifetimes all;
    std::vector<std::vector<int>> taken(3);
    {
      fl::concurrent_shuffle_buffer<fl::test::counted_item> b(options, 9);
      std::vector<std::jthread> consumers;
      for (auto& mine : taken)
        consumers.emplace_back([&] {
          while (const auto item = b.try_pop(long_time)) mine.push_back(item->value());
        });
      {
        std::vector<std::jthread> producers;
        for (int p = 0; p < 3; ++p)
          producers.emplace_back([&, p] {
            for (int i = 0; i < each; ++i)
              if (!b.push(fl::test::counted_item(all, p * each + i))) return;
          });
      }
      b.close();
    }
    std::vector<int> items;
    for (const auto& mine : taken) items.insert(items.end(), mine.begin(), mine.end());
    std::sort(items.begin(), items.end());
    REQUIRE(items.size() == 3 * each);
    for (int i = 0; i < 3 * each; ++i) REQUIRE(items[static_cast<std::size_t>(i)] == i);
    CHECK(all.live() == 0);
  }
}

TEST_CASE("a buffer that is destroyed with items inside destroys them") {
  fl::test::lifetimes all;
  {
    fl::concurrent_shuffle_buffer<fl::test::counted_item> b({.capacity = 4, .min_fill = 4});
    for (int i = 0; i < 3; ++i) CHECK(b.push(fl::test::counted_item(all, i)));
    CHECK(all.live() == 3);
  }
  CHECK(all.live() == 0);
}
