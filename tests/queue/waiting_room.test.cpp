// SPDX-License-Identifier: MIT
// The tokens by which threads are woken: each wake-up goes to exactly one thread that waits, and none is left over.
#include <feedline/detail/waiting.hpp>

#include <atomic>
#include <chrono>
#include <list>
#include <thread>

#include "support/catch.hpp"
#include "support/parked.hpp"
#include "support/watchdog.hpp"

using feedline::detail::after;
using feedline::detail::waiting_room;
using namespace std::chrono_literals;
using namespace feedline::test;

TEST_CASE("who leaves a room that nobody was woken in leaves it as it was", "[queue]") {
  const watchdog guard("leave without a token");
  waiting_room room;
  CHECK_FALSE(room.occupied());
  room.announce();
  CHECK(room.occupied());
  room.leave();
  CHECK_FALSE(room.occupied());

  room.announce();
  room.announce();
  room.leave();
  CHECK(room.occupied());
  room.wake(1);
  room.wait(); // the other one's token is there
  CHECK_FALSE(room.occupied());
}

TEST_CASE("the last one to leave takes the token along that was meant for it", "[queue]") {
  const watchdog guard("leave with a token");
  waiting_room room;
  room.announce();
  room.wake(1);
  room.leave();
  REQUIRE_FALSE(room.occupied());
  parking_thread next([&] {
    room.announce();
    room.wait();
  });
  next.await_parked(); // no token is left that would wake it
  CHECK_FALSE(next.done());
  room.wake(1);
}

TEST_CASE("who leaves takes no token from those who wait on", "[queue]") {
  const watchdog guard("leave beside others");
  waiting_room room;
  for (int i = 0; i < 3; ++i) room.announce();
  room.wake(2);
  room.leave(); // two are left, and two tokens
  room.wait();
  CHECK(room.occupied());
  room.wait();
  CHECK_FALSE(room.occupied());

  for (int i = 0; i < 3; ++i) room.announce();
  room.wake_all();
  room.leave(); // all were woken: one token goes with it
  room.wait();
  room.wait();
  CHECK_FALSE(room.occupied());
}

TEST_CASE("waking wakes as many as asked for, and no more than wait", "[queue]") {
  const watchdog guard("wake");
  waiting_room room;
  room.wake(5);
  CHECK_FALSE(room.occupied());
  std::list<parking_thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      room.announce();
      room.wait();
    });
  const auto done = [&] {
    int count = 0;
    for (const parking_thread& t : threads) count += t.done();
    return count;
  };
  for (const parking_thread& t : threads) t.await_parked();
  room.wake(1);
  while (done() < 1) std::this_thread::yield();
  for (const parking_thread& t : threads)
    if (!t.done()) t.await_parked();
  CHECK(done() == 1);
  room.wake(7);
  while (done() < 3) std::this_thread::yield();
  CHECK_FALSE(room.occupied());
}

TEST_CASE("a room that was alerted stays occupied, and its waiters are counted beside", "[queue]") {
  const watchdog guard("alert");
  waiting_room room;
  room.alert();
  CHECK(room.occupied());
  room.announce();
  room.wake(2);
  room.leave();
  room.announce();
  room.wake(1);
  room.wait();
  CHECK(room.occupied());
  CHECK(room.word().load() == 1U << 31);
}

TEST_CASE("who has waited long enough leaves the room as it was, and takes a token that is there",
          "[queue]") {
  const watchdog guard("wait with a deadline");
  waiting_room room;
  const auto start = std::chrono::steady_clock::now();
  room.announce();
  CHECK_FALSE(room.wait(after(2ms)));
  CHECK(std::chrono::steady_clock::now() - start >= 2ms);
  CHECK_FALSE(room.occupied());
  room.announce();
  CHECK_FALSE(room.wait(after(-1s)));

  room.announce();
  room.announce();
  room.wake(1);
  CHECK(room.wait(after(-1s))); // too late, but the token may have been meant for this thread
  CHECK_FALSE(room.wait(after(0s)));
  CHECK_FALSE(room.occupied());
}

TEST_CASE("a token outlives those whose time is over until someone takes it", "[queue]") {
  const watchdog guard("tokens and deadlines");
  waiting_room room;
  std::atomic<int> woken = 0;
  {
    std::list<parking_thread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        for (bool got = false; !got;) {
          room.announce();
          got = room.wait(after(1us));
        }
        ++woken;
      });
    for (int given = 1; given <= 8; ++given) {
      while (woken < given) room.wake(1); // a wake-up that finds nobody waiting is none
    }
  }
  CHECK(woken == 8);
  CHECK_FALSE(room.occupied());
}
