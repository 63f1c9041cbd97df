// SPDX-License-Identifier: MIT
// The tokens that wake threads: each wake-up goes to exactly one waiting thread, and none is left over.
#include <feedline/detail/waiting.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <thread>

#include "support/catch.hpp"
#include "support/parked.hpp"
#include "support/watchdog.hpp"

using feedline::detail::after;
using feedline::detail::waiting_room;
using namespace std::chrono_literals;
using namespace feedline::test;

TEST_CASE("a thread that leaves leaves the room unchanged if no thread was woken", "[queue]") {
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

TEST_CASE("the last thread to leave takes its token with it", "[queue]") {
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
  next.await_parked(); // no leftover token wakes it
  CHECK_FALSE(next.done());
  room.wake(1);
}

TEST_CASE("a thread that leaves takes no token from the threads that still wait", "[queue]") {
  const watchdog guard("leave while others wait");
  waiting_room room;
  for (int i = 0; i < 3; ++i) room.announce();
  room.wake(2);
  room.leave(); // two waiters and two tokens are left
  room.wait();
  CHECK(room.occupied());
  room.wait();
  CHECK_FALSE(room.occupied());

  for (int i = 0; i < 3; ++i) room.announce();
  room.wake_all();
  room.leave(); // all were woken, so it takes one token with it
  room.wait();
  room.wait();
  CHECK_FALSE(room.occupied());
}

TEST_CASE("wake(n) wakes n threads, or all if fewer wait", "[queue]") {
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

TEST_CASE("wake(n) counts the threads that are already on their way", "[queue]") {
  const watchdog guard("wake again");
  waiting_room room;
  for (int i = 0; i < 3; ++i) room.announce();
  for (const std::uint32_t count : {1U, 1U, 2U, 1U}) room.wake(count);
  CHECK(room.word().load() % 65'536 == 2);
  for (int i = 0; i < 2; ++i) room.wait();
  room.wake_all();
  room.wait();
  CHECK_FALSE(room.occupied());
}

TEST_CASE("an alerted room stays occupied and still counts its waiters", "[queue]") {
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

TEST_CASE("a thread whose deadline passes leaves the room unchanged, or takes a token that is available",
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
  CHECK(room.wait(after(-1s))); // late, but the token may be for this thread
  CHECK_FALSE(room.wait(after(0s)));
  CHECK_FALSE(room.occupied());
}

TEST_CASE("a token survives threads that time out, until a thread takes it", "[queue]") {
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
      while (woken < given) room.wake(1); // has no effect while no thread waits
    }
  }
  CHECK(woken == 8);
  CHECK_FALSE(room.occupied());
}
