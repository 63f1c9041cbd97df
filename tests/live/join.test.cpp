// SPDX-License-Identifier: MIT
#include <feedline/live/join.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/lifetimes.hpp"
#include "support/outcome.hpp"
#include "support/refusing.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

static_assert(fl::source<fl::joined_runs<int>>);
static_assert(fl::source<fl::joined_runs<std::unique_ptr<int>>>);

namespace {

constexpr auto same = [](int n) { return n; };

/// `count` numbers from `first` on.
auto some(int first, int count) {
  return fl::from(count_to(count)) | fl::map([first](int n) { return first + n; }) | fl::prefetch(2);
}

} // namespace

TEST_CASE("A round-robin join yields an item of each run in turn, and leaves out runs that have ended") {
  const watchdog guard("turns");
  for (const std::size_t workers : {1u, 2u, 64u}) {
    const auto joined = fl::join({.round_robin = true, .capacity = 2}, some(0, 4).finite(),
                                 some(100, 0).finite(), some(200, 2).finite());
    CHECK(collect((joined | fl::map(same, fl::workers{workers})).infinite()) ==
          std::vector{0, 200, 1, 201, 2, 3});
  }
  CHECK(collect((fl::join({.round_robin = true}, some(0, 3).finite()) | fl::prefetch(1)).finite()) ==
        count_to(3));
}

TEST_CASE("A join in arrival order yields all items, each run's in order") {
  const watchdog guard("arrival order");
  for (const std::size_t workers : {1u, 2u, 64u}) {
    const auto joined =
        fl::join({.capacity = 2}, some(0, 1000).finite(), some(1000, 1000).finite(), some(2000, 0).finite());
    auto came = collect((joined | fl::map(same, fl::workers{workers})).finite());
    CHECK(std::is_sorted(came.begin(), came.end()) == false); // it would be if the runs followed one another
    std::stable_partition(came.begin(), came.end(), [](int n) { return n < 1000; });
    CHECK(came == count_to(2000));
  }
}

TEST_CASE("A slow run makes no other run of a join wait, except in round-robin order") {
  const watchdog guard("a run without items");
  fl::push_source<int> silent;
  auto loader =
      (fl::join({}, (silent | fl::prefetch(1)).finite(), some(0, 50).finite()) | fl::prefetch(1)).finite();
  for (int n = 0; n < 50; ++n) CHECK(loader.next() == n);
  CHECK(!loader.next_for(std::chrono::milliseconds(10)));
  silent.push(7);
  CHECK(loader.next() == 7);
  silent.close();
  CHECK(!loader.next());
  CHECK(loader.state() == fl::run_state::finished);

  fl::push_source<int> first;
  auto turns = (fl::join({.round_robin = true}, (first | fl::prefetch(1)).finite(), some(0, 2).finite()) |
                fl::prefetch(1))
                   .finite();
  CHECK(!turns.next_for(std::chrono::milliseconds(10)));
  first.push(7);
  CHECK(turns.next() == 7);
  CHECK(turns.next() == 0);
}

TEST_CASE("A run that fails ends the other runs of its join") {
  const watchdog guard("a run that fails");
  for (const bool round_robin : {true, false}) {
    const auto failing = fl::from(count_to(100)) | fl::map(refusing{{3}});
    const auto endless = fl::from(count_to(10)) | fl::map([](int) { return -1; });
    const auto result = run_to_end(
        (fl::join({.round_robin = round_robin}, failing.finite(), endless.infinite()) | fl::prefetch(1))
            .infinite());
    REQUIRE(result.failed);
    CHECK(result.failed->stage == "join");
    CHECK(result.failed->message.find("map failed on sample 3") != std::string::npos);
    CHECK(std::count_if(result.items.begin(), result.items.end(), [](int n) { return n >= 0; }) == 3);

    const auto skipped = run_to_end(
        (fl::join({.round_robin = round_robin}, failing.finite(), endless.infinite()) | fl::prefetch(1))
            .finite({.on_error = fl::on_error::skip}));
    CHECK(!skipped.failed);
    CHECK(skipped.skipped.size() == 1);
  }
}

TEST_CASE("The end of a run over a join stops the joined runs") {
  const watchdog guard("the end of a joining run");
  lifetimes all;
  for (const bool round_robin : {true, false})
    for (int round = 0; round < 30; ++round) {
      const auto make = [&](int n) { return counted_item(all, n); };
      const auto endless = fl::from(count_to(100)) | fl::map(make, fl::workers{2});
      const auto joined =
          fl::join({.round_robin = round_robin, .capacity = 3}, endless.infinite(), endless.infinite());
      auto loader = (joined | fl::map([](counted_item item) { return item; }, fl::workers{2})).infinite();
      for (int i = 0; i < round % 5; ++i) CHECK(loader.next());
      if (round % 2 == 0) loader.stop();
    }
  CHECK(all.live() == 0);

  fl::push_source<int> silent;
  auto waiting = (fl::join({}, (silent | fl::prefetch(1)).infinite()) | fl::prefetch(1)).infinite();
  std::jthread stopper([&] { waiting.stop(); });
  CHECK(!waiting.next());
}

TEST_CASE("The end of a run that didn't come to a join stops the joined runs") {
  const watchdog guard("a join that isn't reached");
  const std::vector<int> old(100'000);
  for (const bool round_robin : {true, false}) {
    fl::push_source<int> numbers;
    const auto joined =
        fl::join({.round_robin = round_robin, .capacity = 2}, (numbers | fl::prefetch(1)).infinite());
    const auto pipeline = fl::concat(fl::from(old), joined) | fl::prefetch(1);
    CHECK(pipeline.infinite().next() == 0);
    while (numbers.push(1) != fl::queue_status::closed) continue;
  }
}

TEST_CASE("A join of live runs has no checkpoints, and its memory is in the plan") {
  const auto pipeline = fl::join({.capacity = 5}, some(0, 3).finite(), some(0, 3).finite()) | fl::prefetch(1);
  CHECK(!decltype(pipeline.finite())::has_checkpoints);
  CHECK(pipeline.memory().bytes());
  CHECK(throws_saying<std::invalid_argument>("capacity must be at least 1",
                                             [] { fl::join({.capacity = 0}, some(0, 1).finite()); }));
}
