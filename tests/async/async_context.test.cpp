// SPDX-License-Identifier: MIT
#include <feedline/async/async_context.hpp>

#include <feedline/async/async_map.hpp>
#include <feedline/source/range.hpp>

#include <asio/post.hpp>
#include <atomic>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/coroutines.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using fl::async_context;
using fl::test::collect;
using fl::test::count_to;

TEST_CASE("A coroutine runs on the thread of its context's executor") {
  const auto where = [](int, async_context& c) -> asio::awaitable<bool> {
    const std::thread::id before = std::this_thread::get_id();
    co_await asio::post(c.executor, asio::use_awaitable);
    co_return before == std::this_thread::get_id() && c.executor.running_in_this_thread();
  };
  const auto p = fl::from(count_to(20)) | fl::async_map(where, fl::threads{3});
  for (const bool same : collect(p.finite())) CHECK(same);
}

TEST_CASE("A long computation in a coroutine sees a stop in its context") {
  const fl::test::watchdog guard("a computation that looks for a stop");
  std::atomic<bool> begun{false};
  const auto compute = [&](int i, async_context& c) -> asio::awaitable<int> {
    begun = true;
    while (!c.stop.stop_requested()) std::this_thread::yield();
    co_return i;
  };
  auto loader = (fl::from(count_to(20)) | fl::async_map(compute)).finite();
  while (!begun) std::this_thread::yield();
  loader.stop();
  CHECK(!loader.next());
}
