// SPDX-License-Identifier: MIT
#include <feedline/stage/prefetch.hpp>

#include <feedline/source/push_source.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/counting_resource.hpp"
#include "support/lifetimes.hpp"
#include "support/outcome.hpp"
#include "support/refusing.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using fl::test::collect;
using fl::test::count_to;
using fl::test::run_to_end;
using fl::test::throws_saying;

namespace {

using mapping = std::function<int(int)>;

const mapping same = [](int i) { return i; };

using hops = std::vector<std::thread::id>;

constexpr auto start = [](int) { return hops{std::this_thread::get_id()}; };
constexpr auto hop = [](hops h) {
  h.push_back(std::this_thread::get_id());
  return h;
};

} // namespace

TEST_CASE("prefetch needs room for at least one item") {
  CHECK_THROWS_AS(fl::prefetch(0), std::invalid_argument);
}

TEST_CASE("prefetch emits every item in order") {
  for (const std::size_t room : {1u, 2u, 7u, 5000u}) {
    const auto p = fl::from(count_to(3000)) | fl::prefetch(room) | fl::map(same) | fl::prefetch(room);
    CHECK(collect(p.finite()) == count_to(3000));
  }
}

TEST_CASE("a source followed only by prefetch yields its samples unchanged, including move-only ones") {
  fl::test::lifetimes all;
  {
    const auto p = fl::from(count_to(3)) | fl::prefetch(2);
    CHECK(collect(p.infinite(), 5) == std::vector{0, 1, 2, 0, 1});
    const auto q = fl::from(count_to(9)) | fl::map([&](int i) { return fl::test::counted_item(all, i); }) |
                   fl::prefetch(2);
    auto loader = q.finite();
    CHECK(loader.next().value().value() == 0);
    CHECK(loader.next().value().value() == 1);
  }
  CHECK(all.live() == 0);
}

TEST_CASE("prefetch puts the stages on either side on separate threads") {
  const auto together = collect((fl::from(count_to(1)) | fl::map(start) | fl::map(hop)).finite()).at(0);
  CHECK(together[0] == together[1]);
  const auto apart =
      collect((fl::from(count_to(1)) | fl::map(start) | fl::prefetch(4) | fl::map(hop)).finite()).at(0);
  CHECK(apart[0] != apart[1]);
}

TEST_CASE("the stages before prefetch work ahead of a consumer that doesn't ask, up to the capacity") {
  std::latch ahead(8);
  std::atomic<int> made = 0;
  {
    const auto p = fl::from(count_to(1000)) | fl::map([&](int i) {
                     if (made++ < 8) ahead.count_down();
                     return i;
                   }) |
                   fl::batch(1) | fl::prefetch(8);
    auto loader = p.infinite();
    ahead.wait();
    CHECK(loader.next());
    CHECK(loader.next());
  }
  CHECK(made <= 2 + 8 + 1); // taken, in the queue, and in hand
}

TEST_CASE("prefetch holds as many slow items ready as it was asked for") {
  const fl::test::watchdog dog("prefetch of slow items");
  for (const int room : {1, 8, 64}) {
    std::latch ahead(room + 1); // one in hand
    std::atomic<int> made = 0;
    const mapping slow = [&](int i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (made++ <= room) ahead.count_down();
      return i;
    };
    const auto p = fl::from(count_to(1000)) | fl::map(slow) | fl::prefetch(static_cast<std::size_t>(room));
    {
      const auto loader = p.finite();
      ahead.wait();
    }
    CHECK(made <= room + 2);
  }
}

TEST_CASE("prefetch holds as many quick items ready as it was asked for, behind any number of workers") {
  const fl::test::watchdog dog("prefetch of quick items");
  constexpr int warm = 5000; // by then packets to workers are as long as they get
  for (const int workers : {1, 2, 5}) {
    CAPTURE(workers);
    constexpr int room = 64;
    std::latch ahead(warm + room + workers); // each has one in hand
    std::atomic<int> made = 0;
    const mapping quick = [&](int i) {
      if (made++ < warm + room + workers) ahead.count_down();
      return i;
    };
    {
      const auto p = fl::from(count_to(100'000)) |
                     fl::map(quick, fl::workers{static_cast<std::size_t>(workers)}) | fl::prefetch(room);
      auto loader = p.finite();
      for (int i = 0; i < warm; ++i) CHECK(*loader.next() == i);
      ahead.wait();
    }
    CHECK(made <= warm + room + workers + 1);
  }
}

TEST_CASE("batches before prefetch(n) take up to n + 2 buffers in all") {
  const fl::test::watchdog dog("buffers of batches");
  using row = std::array<float, 1024>;
  const std::function<row(int)> make = [](int n) {
    row r;
    r.fill(static_cast<float>(n));
    return r;
  };
  for (const std::size_t room : {1u, 2u, 8u})
    for (const std::size_t workers : {1u, 3u}) {
      fl::test::counting_resource memory;
      {
        const auto p = fl::from(count_to(400)) | fl::map(make, fl::workers{workers}) |
                       fl::batch(4, {.memory = &memory}) | fl::prefetch(room);
        auto loader = p.finite();
        for (int taken = 0; taken < 40; ++taken) REQUIRE(loader.next());
        while (memory.most_bytes() < (room + 1) * 4 * sizeof(row))
          std::this_thread::yield(); // the last isn't full yet
        while (const auto batch = loader.next()) CHECK(batch->size() == 4);
      }
      CHECK(memory.most_bytes() <= (room + 2) * 4 * sizeof(row));
    }
}

TEST_CASE("an error passes prefetch in its position") {
  const auto p =
      fl::from(count_to(50)) | fl::map(mapping(fl::test::refusing{{30}})) | fl::prefetch(4) | fl::map(same);
  const auto result = run_to_end(p.finite());
  CHECK(result.items == count_to(30));
  REQUIRE(result.failed);
  CHECK(result.failed->index == 30);
  const auto skipping = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(skipping.items.size() == 49);
  CHECK(skipping.skipped_indices() == std::vector<std::uint64_t>{30});
}

TEST_CASE("prefetch of an empty source yields nothing in any epoch") {
  CHECK(collect((fl::from(count_to(0)) | fl::prefetch(3)).finite({.epochs = 3})).empty());
}

namespace {

/// Returns when all of the items were pushed into the last queue.
template <class Loader>
void await_put(Loader& loader, std::uint64_t items) {
  const fl::test::watchdog dog("a queue that drops");
  while (loader.metrics().total.queues.back().put < items) std::this_thread::yield();
}

std::vector<int> numbers(int begin, int end) {
  std::vector<int> all;
  for (int i = begin; i < end; ++i) all.push_back(i);
  return all;
}

} // namespace

TEST_CASE("a queue that drops the oldest items keeps the last ones") {
  auto loader = (fl::from(count_to(1000)) | fl::prefetch<fl::overflow::drop_oldest>(8)).finite();
  await_put(loader, 1000);
  CHECK(collect(loader) == numbers(992, 1000));
  const fl::queue_metrics queue = loader.metrics().total.queues.at(0);
  CHECK(queue.put == 1000);
  CHECK(queue.taken == 8);
  CHECK(queue.dropped == 992);
  CHECK(to_string(loader.metrics()).find("dropped 992") != std::string::npos);
  CHECK(to_json(loader.metrics()).find("\"dropped\": 992") != std::string::npos);
}

TEST_CASE("a queue that drops the newest items keeps the first ones") {
  auto loader = (fl::from(count_to(1000)) | fl::prefetch<fl::overflow::drop_newest>(8)).finite();
  await_put(loader, 1000);
  CHECK(collect(loader) == numbers(0, 8));
  CHECK(loader.metrics().total.queues.at(0).dropped == 992);
}

TEST_CASE("a queue that drops counts each item of a packet") {
  // More than 1,024 items cross the queue in packets of several.
  auto loader = (fl::from(count_to(100'000)) | fl::prefetch<fl::overflow::drop_oldest>(5000)).finite();
  await_put(loader, 100'000);
  const auto came = collect(loader);
  CHECK(came.size() <= 1024 * 5);
  CHECK(came.back() == 99'999);
  CHECK(came.size() + loader.metrics().total.queues.at(0).dropped == 100'000);
}

TEST_CASE("a queue that may drop items drops none if the consumer is fast enough") {
  const auto pipeline = fl::from(count_to(500)) | fl::prefetch<fl::overflow::drop_oldest>(500);
  CHECK(collect(pipeline.finite()) == count_to(500));
  CHECK(collect((fl::from(count_to(0)) | fl::prefetch<fl::overflow::drop_newest>(1)).finite({.epochs = 2}))
            .empty());
}

TEST_CASE("failures are not dropped") {
  const auto check = [](const auto& queue) {
    const mapping refuse_threes = [](int i) {
      if (i % 10 == 3) throw std::runtime_error("bad");
      return i;
    };
    const auto pipeline = fl::from(count_to(1000)) | fl::map(refuse_threes) | queue;
    auto loader = pipeline.finite({.on_error = fl::on_error::skip});
    await_put(loader, 900);
    const auto came = collect(loader);
    CHECK(came.size() <= 8);
    CHECK(loader.failures().size() == 100);
    for (std::size_t i = 0; i < 100; ++i) CHECK(loader.failures()[i].index == 10 * i + 3);

    auto failing = pipeline.finite();
    await_put(failing, 3);
    const auto result = run_to_end(failing);
    CHECK(result.items == count_to(3));
    REQUIRE(result.failed);
    CHECK(result.failed->index == 3);
  };
  check(fl::prefetch<fl::overflow::drop_oldest>(8));
  check(fl::prefetch<fl::overflow::drop_newest>(8));
}

TEST_CASE("a failure that arrives when all queues are full ends the run after the items that are left") {
  const auto check = [](const auto& queue, const std::vector<int>& left) {
    auto loader = (fl::from(count_to(1000)) | fl::map(mapping(fl::test::refusing{{700}})) | queue).finite();
    await_put(loader, 700);
    const auto result = run_to_end(loader);
    CHECK(result.items == left);
    REQUIRE(result.failed);
    CHECK(result.failed->index == 700);
  };
  check(fl::prefetch<fl::overflow::drop_oldest>(5), numbers(695, 700));
  check(fl::prefetch<fl::overflow::drop_newest>(5), numbers(0, 5));
}

TEST_CASE("ends of epochs are not dropped") {
  const fl::test::watchdog dog("ends of epochs in a queue that drops");
  const auto check = [](const auto& queue) {
    const auto pipeline = fl::from(count_to(7)) | queue | fl::batch(100, fl::as_list);
    for (int round = 0; round < 20; ++round) {
      auto loader = pipeline.finite({.seed = 1, .epochs = 40});
      std::uint32_t before = 0;
      std::size_t came = 0;
      for (const auto& batch : loader) {
        const std::uint32_t epoch = batch.ids()[0].epoch;
        CHECK((came == 0 || epoch > before));
        for (const fl::sample_id& id : batch.ids()) CHECK(id.epoch == epoch);
        before = epoch;
        came += batch.size();
      }
      CHECK(came + loader.metrics().total.queues.at(0).dropped == 280);
    }
  };
  check(fl::prefetch<fl::overflow::drop_oldest>(3));
  check(fl::prefetch<fl::overflow::drop_oldest>(1));
  check(fl::prefetch<fl::overflow::drop_newest>(3));
  check(fl::prefetch<fl::overflow::drop_newest>(1));
}

TEST_CASE("a queue that drops items keeps the order of the others, between any number of workers") {
  const fl::test::watchdog dog("a queue that drops between workers");
  for (const std::size_t before : {1u, 2u, 64u})
    for (const std::size_t behind : {1u, 3u, 64u}) {
      const auto pipeline = fl::from(count_to(20'000)) | fl::map(same, fl::workers{before}) |
                            fl::prefetch<fl::overflow::drop_oldest>(16) | fl::map(same, fl::workers{behind}) |
                            fl::prefetch<fl::overflow::drop_newest>(16);
      auto loader = pipeline.finite();
      int last = -1;
      std::size_t came = 0;
      for (const int i : loader) {
        CHECK(i > last);
        last = i;
        ++came;
      }
      std::uint64_t dropped = 0;
      for (const fl::queue_metrics& queue : loader.metrics().total.queues) dropped += queue.dropped;
      CHECK(came + dropped == 20'000);
    }
}

TEST_CASE("a producer that pushes into a live source never waits for its consumer") {
  const fl::test::watchdog dog("a live feed");
  fl::push_source<int> feed({.capacity = 2});
  auto loader = (feed | fl::map(same) | fl::prefetch<fl::overflow::drop_oldest>(4)).infinite();
  for (int i = 0; i < 1000; ++i) CHECK(feed.push(i) == fl::queue_status::success);
  feed.close();
  await_put(loader, 1000);
  CHECK(collect(loader) == numbers(996, 1000));
}

TEST_CASE("a run with a queue that drops items stops at once, whichever side waits") {
  const fl::test::watchdog dog("the end of a queue that drops");
  fl::test::lifetimes all;
  {
    const auto make = [&](int i) { return fl::test::counted_item(all, i); };
    // Every packet ends an epoch: upstream waits.
    const auto ends = fl::from(count_to(1)) | fl::map(make) | fl::prefetch<fl::overflow::drop_oldest>(2);
    for (int i = 0; i < 20; ++i) {
      auto loader = ends.infinite();
      CHECK(loader.next());
    }
    const auto many = fl::from(count_to(10'000)) | fl::map(make, fl::workers{4}) |
                      fl::prefetch<fl::overflow::drop_newest>(4);
    for (int i = 0; i < 20; ++i) {
      auto loader = many.infinite();
      CHECK(loader.next());
      loader.stop();
      CHECK(!loader.next());
    }
    // Downstream waits.
    fl::push_source<int> feed;
    auto loader =
        (feed | fl::prefetch<fl::overflow::drop_newest>(4) | fl::map(same, fl::workers{3})).finite();
    CHECK(!loader.try_next());
    CHECK(!loader.next_for(std::chrono::milliseconds(1)));
    loader.stop();
  }
  CHECK(all.live() == 0);
}

TEST_CASE("a run with a queue that drops items names what it can't do") {
  const auto pipeline = fl::from(count_to(100)) | fl::prefetch<fl::overflow::drop_oldest>(4);
  CHECK(!pipeline.size());
  CHECK(!decltype(pipeline.finite())::has_checkpoints);
  const auto behind_workers = fl::from(count_to(100)) | fl::map(same, fl::workers{2}) |
                              fl::prefetch<fl::overflow::drop_oldest>(4) | fl::map(same);
  auto loader = behind_workers.finite();
  CHECK(loader.memory().bytes());
  CHECK(loader.metrics().total.segments.at(2).name == "prefetch");
  const auto checkpoint = (fl::from(count_to(100)) | fl::prefetch(4)).finite().checkpoint();
  CHECK(throws_saying<std::invalid_argument>("drops samples",
                                             [&] { pipeline.finite({.resume = checkpoint}); }));
  CHECK(throws_saying<std::invalid_argument>("on one rank than on another", [&] {
    pipeline.finite({.rank = {0, 2}});
  }));
  CHECK(collect(pipeline.finite({.rank = {0, 2, fl::remainder::keep}})).size() <= 50);
}
