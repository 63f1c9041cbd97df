// SPDX-License-Identifier: MIT
#include <feedline/queue/object_pool.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/lifetimes.hpp"
#include "support/parked.hpp"

using feedline::object_pool;
using namespace feedline::test;
using namespace std::chrono_literals;

using pool = object_pool<int>;
static_assert(!std::is_copy_constructible_v<pool> && !std::is_move_constructible_v<pool>);
static_assert(std::is_nothrow_move_constructible_v<pool::lease> && std::is_move_assignable_v<pool::lease>);
static_assert(!std::is_copy_constructible_v<pool::lease>);
static_assert(!std::is_constructible_v<pool, std::size_t, std::string (*)()>);

namespace {

constexpr auto long_time = 200s; // so that a lost wake-up hangs instead of timing out

/// Makes the numbers 0, 1, 2, …
auto counter() {
  return [made = std::make_shared<std::atomic<int>>(0)] { return (*made)++; };
}

} // namespace

TEST_CASE("a pool of capacity 0 is refused", "[queue]") {
  CHECK_THROWS_AS(pool(0), std::invalid_argument);
  CHECK_THROWS_AS(pool(static_cast<std::size_t>(-1)), std::invalid_argument);
}

TEST_CASE("objects are made when they are first needed, at most as many as the capacity", "[queue]") {
  pool p(2, counter());
  CHECK(p.capacity() == 2);
  auto a = p.acquire();
  REQUIRE(a);
  CHECK(*a == 0);
  a.reset();
  CHECK_FALSE(a);
  CHECK(a.get() == nullptr);
  a = p.acquire();
  CHECK(*a == 0); // the same object
  auto b = p.try_acquire();
  REQUIRE(b);
  CHECK(*b == 1);
  CHECK_FALSE(p.try_acquire());
  const auto start = std::chrono::steady_clock::now();
  CHECK_FALSE(p.acquire_for(2ms));
  CHECK(std::chrono::steady_clock::now() - start >= 2ms);
  CHECK_FALSE(p.acquire_for(-1h));
  b.reset();
  CHECK(*p.acquire_for(long_time) == 1);
  CHECK(*p.acquire_for(std::chrono::nanoseconds::max()) == 1);
}

TEST_CASE("an object returns as its user left it, and the last one is leased first", "[queue]") {
  pool p(3);
  {
    auto a = p.acquire(), b = p.acquire();
    CHECK(*a == 0);
    *a = 5;
    *b = 6;
    b.reset();
  }
  const auto a = p.acquire(), b = p.acquire(), c = p.acquire();
  CHECK(*a == 5);
  CHECK(*b == 6);
  CHECK(*c == 0);
}

TEST_CASE("a lease can be moved, and returns the object that it had before", "[queue]") {
  pool p(2, counter());
  auto a = p.acquire();
  auto moved = std::move(a);
  CHECK_FALSE(a); // NOLINT: this is the tested behaviour
  CHECK(*moved == 0);
  auto b = p.acquire();
  CHECK_FALSE(p.try_acquire());
  moved = std::move(b);
  CHECK(*moved == 1);
  CHECK(*p.try_acquire() == 0);
  pool::lease empty;
  CHECK_FALSE(empty);
  moved = std::move(empty);
  const auto c = p.acquire(), d = p.acquire();
  CHECK(*c + *d == 1);
}

TEST_CASE("objects can be leased that are neither movable nor default-constructible", "[queue]") {
  struct fixed {
    explicit fixed(int n) : number(n) {}

    fixed(fixed&&) = delete;

    int number;
  };

  object_pool<fixed> p(1, [] { return fixed(7); });
  CHECK(p.acquire()->number == 7);
}

TEST_CASE("an exception of the factory reaches the caller, and the next caller tries again", "[queue]") {
  std::atomic<int> calls = 0;
  pool p(1, [&] {
    if (++calls == 1) throw std::runtime_error("not yet");
    return calls.load();
  });
  CHECK_THROWS_AS(p.acquire(), std::runtime_error);
  CHECK(*p.acquire() == 2);
}

TEST_CASE("a thread that waits while another thread's factory fails makes the object itself", "[queue]") {
  std::atomic<int> calls = 0;
  std::atomic<bool> go = false;
  pool p(1, [&] {
    const int call = ++calls;
    go.wait(false);
    if (call == 1) throw std::runtime_error("not yet");
    return call;
  });
  std::atomic<int> failed = 0, got = 0;
  {
    parking_thread first([&] {
      try {
        const auto l = p.acquire();
      } catch (const std::runtime_error&) {
        ++failed;
      }
    });
    while (calls == 0) std::this_thread::yield();
    parking_thread second([&] { got = *p.acquire(); });
    second.await_parked();
    go = true;
    go.notify_all();
  }
  CHECK(failed == 1);
  CHECK(got == 2);
}

TEST_CASE("a returned object goes to a thread that waits for it", "[queue]") {
  const bool timed = GENERATE(false, true);
  pool p(1, counter());
  std::optional<pool::lease> held = p.acquire();
  std::atomic<int> used = 0;
  {
    std::list<parking_thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        const auto l = timed ? p.acquire_for(long_time) : p.acquire();
        used += l && *l == 0;
      });
    for (const auto& t : threads) t.await_parked();
    held.reset();
  }
  CHECK(used == 4);
}

TEST_CASE("threads that wait for an object use no processor time", "[queue]") {
  pool p(1);
  auto held = p.acquire();
  parking_thread thread([&] { p.acquire_for(long_time); });
  thread.await_parked();
  const long time = thread.cpu_time(), switches = thread.switches();
  burn(50);
  CHECK(thread.cpu_time() == time);
  CHECK(thread.switches() == switches);
  held.reset();
}

TEST_CASE("stop wakes all waiting threads, and existing leases stay valid", "[queue]") {
  pool p(1, counter());
  auto held = p.acquire();
  std::atomic<int> empty = 0;
  {
    parking_thread a([&] { empty += !p.acquire(); }), b([&] { empty += !p.acquire_for(long_time); });
    a.await_parked();
    b.await_parked();
    CHECK_FALSE(p.is_stopped());
    p.stop();
  }
  CHECK(empty == 2);
  CHECK(p.is_stopped());
  CHECK(*held == 0);
  held.reset();
  CHECK_FALSE(p.acquire());
  CHECK_FALSE(p.try_acquire());
}

TEST_CASE("a stop token wakes only its own waiters", "[queue]") {
  pool p(1);
  auto held = p.acquire();
  std::stop_source source;
  std::atomic<int> empty = 0, used = 0;
  {
    parking_thread patient([&] { used += p.acquire().get() != nullptr; });
    {
      parking_thread a([&] { empty += !p.acquire(source.get_token()); }),
          b([&] { empty += !p.acquire_for(long_time, source.get_token()); });
      for (const auto* t : {&patient, &a, &b}) t->await_parked();
      source.request_stop();
    }
    CHECK(empty == 2);
    patient.await_parked();
    CHECK(used == 0);
    CHECK_FALSE(p.acquire(source.get_token())); // stopped before
    held.reset();
  }
  CHECK(used == 1);
  CHECK_FALSE(p.acquire(source.get_token()));
  CHECK(p.acquire());
}

TEST_CASE("a lease outlives its pool", "[queue]") {
  lifetimes all;
  object_pool<counted_item>::lease last;
  {
    object_pool<counted_item> p(3, [&] { return counted_item(all, 4); });
    const auto a = p.acquire(), b = p.acquire();
    last = p.acquire();
    CHECK(all.live() == 3);
  }
  CHECK(all.live() == 1);
  CHECK(last->value() == 4);
  last.reset();
  CHECK(all.live() == 0);
}

TEST_CASE("no object ever has two users at once", "[queue]") {
  struct object {
    std::atomic<int> users = 0;
    long uses = 0; // not atomic: each user sees what the last one did
  };

  constexpr std::size_t capacity = 3;
  constexpr int threads = 6, rounds = 3000;
  std::atomic<int> made = 0;
  object_pool<object> p(capacity, [&] {
    ++made;
    return object();
  });
  std::atomic<bool> alone = true;
  std::atomic<long> uses = 0;
  {
    std::vector<std::jthread> users;
    for (int t = 0; t < threads; ++t)
      users.emplace_back([&, t] {
        for (int i = 0; i < rounds; ++i) {
          std::stop_source source;
          std::jthread stopper;
          if (i % 500 == 0) stopper = std::jthread([&] { source.request_stop(); });
          const auto l = (i + t) % 3 == 0   ? p.acquire(source.get_token())
                         : (i + t) % 3 == 1 ? p.acquire_for(20us)
                                            : p.try_acquire();
          if (!l) continue;
          if (++l->users != 1) alone = false;
          ++l->uses;
          ++uses;
          if (i % 64 == 0) std::this_thread::yield();
          --l->users;
        }
      });
  }
  CHECK(alone);
  CHECK(made <= static_cast<int>(capacity));
  long sum = 0;
  std::list<object_pool<object>::lease> leases;
  while (auto l = p.try_acquire()) {
    sum += l->uses;
    leases.push_back(std::move(l));
  }
  CHECK(leases.size() == capacity);
  CHECK(sum == uses);
}
