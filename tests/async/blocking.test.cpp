// SPDX-License-Identifier: MIT
#include <feedline/async/blocking.hpp>

#include <feedline/async/async_map.hpp>
#include <feedline/source/range.hpp>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "support/catch.hpp"
#include "support/coroutines.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using fl::async_context;
using fl::test::collect;
using fl::test::count_to;
using fl::test::run_to_end;

namespace {

using fetching = std::function<asio::awaitable<int>(int, async_context&)>;

} // namespace

TEST_CASE("A blocking function runs on threads of its own, several calls at once") {
  const fl::test::watchdog guard("blocking calls");
  std::latch four(4);
  std::mutex mutex;
  std::set<std::thread::id> seen;
  const auto wait = fl::blocking(
      [&](int i) {
        if (i < 4) four.arrive_and_wait();
        const std::lock_guard lock(mutex);
        seen.insert(std::this_thread::get_id());
        return 2 * i;
      },
      fl::threads{4});
  std::thread::id loop;
  const fetching call = [&, wait](int i, async_context&) -> asio::awaitable<int> {
    const int twice = co_await wait(i);
    loop = std::this_thread::get_id();
    co_return twice / 2;
  };
  CHECK(collect((fl::from(count_to(50)) | fl::async_map(call)).finite()) == count_to(50));
  CHECK(seen.size() == 4);
  CHECK(!seen.contains(loop));
}

TEST_CASE("A blocking function may be a stage's function by itself") {
  const auto read = fl::blocking([](int i) { return std::to_string(i); }, fl::threads{2});
  const auto p = fl::from(count_to(3)) | fl::async_map([read](int i) { return read(i); });
  CHECK(collect(p.finite()) == std::vector<std::string>{"0", "1", "2"});
  CHECK(collect((fl::from(count_to(3)) | fl::async_map(read)).finite()) ==
        std::vector<std::string>{"0", "1", "2"});
}

TEST_CASE(
    "A blocking function may return nothing, take several arguments, and those that can only be moved") {
  std::atomic<int> sum{0};
  const auto add = fl::blocking([&](int a, std::unique_ptr<int> b) { sum += a + *b; }, fl::threads{1});
  const fetching call = [&](int i, async_context&) -> asio::awaitable<int> {
    co_await add(i, std::make_unique<int>(100));
    co_return i;
  };
  CHECK(collect((fl::from(count_to(5)) | fl::async_map(call)).finite()).size() == 5);
  CHECK(sum == 510);
}

TEST_CASE("What a blocking function throws is thrown where it is awaited") {
  const auto fails = fl::blocking(
      [](int i) {
        if (i == 2) throw std::runtime_error("two");
        return i;
      },
      fl::threads{2});
  const auto got = run_to_end((fl::from(count_to(5)) | fl::async_map(fails)).finite());
  CHECK(got.items == count_to(2));
  REQUIRE(got.failed);
  CHECK(got.failed->message == "two");
}

TEST_CASE("A blocking function may be destroyed before a call of it ends") {
  const fl::test::watchdog guard("a call that outlives its function");
  const fetching call = [](int i, async_context&) -> asio::awaitable<int> {
    auto once = fl::blocking([own = std::make_unique<int>(7)](int n) { return n + *own; }, fl::threads{1})(i);
    co_return co_await std::move(once);
  };
  CHECK(collect((fl::from(count_to(5)) | fl::async_map(call)).finite()) == std::vector<int>{7, 8, 9, 10, 11});
}

TEST_CASE("A stop cancels blocking calls that have no thread yet, and waits for those that run") {
  const fl::test::watchdog guard("a stop with blocking calls");
  std::mutex mutex;
  std::condition_variable changed;
  bool may_end = false;
  std::atomic<int> begun{0}, ended{0};
  const auto wait = fl::blocking(
      [&](int i) {
        ++begun;
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return may_end; });
        ++ended;
        return i;
      },
      fl::threads{2});
  // The first and the last item show when all have been cancelled.
  std::atomic<int> waiting{0}, cancelled{0};
  const fetching call = [&](int i, async_context& c) -> asio::awaitable<int> {
    if (i > 0 && i < 99) co_return co_await wait(i);
    ++waiting;
    try {
      co_await fl::test::wait_for_cancellation(c);
    } catch (const std::system_error&) {
      ++cancelled;
    }
    co_return i;
  };
  {
    auto loader = (fl::from(count_to(100)) | fl::async_map(call)).finite();
    while (begun.load() < 2 || waiting.load() < 2) std::this_thread::yield();
    std::jthread stopping([&] { loader.stop(); });
    while (cancelled.load() < 2) std::this_thread::yield();
    const std::lock_guard lock(mutex);
    may_end = true;
    changed.notify_all();
  }
  CHECK(begun.load() == 2);
  CHECK(ended.load() == 2);
}

TEST_CASE("blocking refuses a number of threads out of range") {
  const auto same = [](int i) { return i; };
  CHECK_THROWS_WITH(fl::blocking(same, fl::threads{0}),
                    "feedline::blocking: 0 threads requested, but it must be 1 to 256");
  CHECK_THROWS_AS(fl::blocking(same, fl::threads{257}), std::invalid_argument);
}
