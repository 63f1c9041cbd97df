// SPDX-License-Identifier: MIT
#include <feedline/stage/prefetch.hpp>

#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/lifetimes.hpp"
#include "support/outcome.hpp"
#include "support/refusing.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using fl::test::collect;
using fl::test::count_to;
using fl::test::run_to_end;

namespace {

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

TEST_CASE("prefetch hands on every item in order") {
  for (const std::size_t room : {1u, 2u, 7u, 5000u}) {
    const auto p =
        fl::from(count_to(3000)) | fl::prefetch(room) | fl::map([](int i) { return i; }) | fl::prefetch(room);
    CHECK(collect(p.finite()) == count_to(3000));
  }
}

TEST_CASE("prefetch alone behind a source gives its samples as they are, also those that can only be moved") {
  fl::test::lifetimes all;
  {
    const auto p = fl::from(count_to(3)) | fl::prefetch(2);
    CHECK(collect(p.infinite(), 5) == std::vector{0, 1, 2, 0, 1});
    const auto q = fl::from(count_to(9)) | fl::map([&](int i) { return fl::test::counted_item(all, i); }) |
                   fl::prefetch(2);
    auto loader = q.finite();
    CHECK(loader.next()->value() == 0);
    CHECK(loader.next()->value() == 1);
  }
  CHECK(all.live() == 0);
}

TEST_CASE("prefetch gives the stages on either side threads of their own") {
  const auto together = collect((fl::from(count_to(1)) | fl::map(start) | fl::map(hop)).finite()).at(0);
  CHECK(together[0] == together[1]);
  const auto apart =
      collect((fl::from(count_to(1)) | fl::map(start) | fl::prefetch(4) | fl::map(hop)).finite()).at(0);
  CHECK(apart[0] != apart[1]);
}

TEST_CASE("what stands before prefetch works ahead of a consumer that doesn't ask, and no further") {
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
  CHECK(made <= 2 + 8 + 1); // taken, in the queue, in hand
}

TEST_CASE("as many slow items lie ready as prefetch was asked for") {
  const fl::test::watchdog dog("prefetch of slow items");
  for (const int room : {1, 8, 64}) {
    std::latch ahead(room + 1); // one in hand
    std::atomic<int> made = 0;
    const auto p = fl::from(count_to(1000)) | fl::map([&](int i) {
                     std::this_thread::sleep_for(std::chrono::milliseconds(1));
                     if (made++ <= room) ahead.count_down();
                     return i;
                   });
    {
      const auto loader = (p | fl::prefetch(static_cast<std::size_t>(room))).finite();
      ahead.wait();
    }
    CHECK(made <= room + 2);
  }
}

TEST_CASE("an error passes prefetch in its place") {
  const auto p = fl::from(count_to(50)) | fl::map(fl::test::refusing{{30}}) | fl::prefetch(4) |
                 fl::map([](int i) { return i; });
  const auto result = run_to_end(p.finite());
  CHECK(result.items == count_to(30));
  REQUIRE(result.failed);
  CHECK(result.failed->index == 30);
  const auto skipping = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(skipping.items.size() == 49);
  CHECK(skipping.skipped_indices() == std::vector<std::uint64_t>{30});
}

TEST_CASE("prefetch of nothing gives nothing, epoch after epoch") {
  CHECK(collect((fl::from(count_to(0)) | fl::prefetch(3)).finite({.epochs = 3})).empty());
}
