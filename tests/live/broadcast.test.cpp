// SPDX-License-Identifier: MIT
#include <feedline/live/broadcast.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
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

static_assert(fl::source<fl::branch<int>>);
static_assert(fl::source<fl::branch<std::unique_ptr<int>>>);

namespace {

using mapping = std::function<int(int)>;

const mapping same = [](int n) { return n; };

/// The items of each branch, each read by its own thread.
template <class Pipeline>
std::vector<outcome<int>> run_side_by_side(const std::vector<Pipeline>& pipelines) {
  std::vector<outcome<int>> results(pipelines.size());
  std::vector<std::jthread> readers;
  for (std::size_t i = 0; i < pipelines.size(); ++i)
    readers.emplace_back([&, i] { results[i] = run_to_end(pipelines[i].infinite()); });
  readers.clear();
  return results;
}

auto behind(const std::vector<fl::branch<int>>& branches, std::size_t workers) {
  std::vector<decltype(branches[0] | fl::map(same, fl::workers{1}))> all;
  for (const fl::branch<int>& branch : branches) all.push_back(branch | fl::map(same, fl::workers{workers}));
  return all;
}

auto counted(int count) { return fl::from(count_to(count)) | fl::map(same, fl::workers{2}); }

} // namespace

TEST_CASE("Each branch of a broadcast yields every item, in order") {
  const watchdog guard("a broadcast");
  for (const std::size_t workers : {1u, 2u, 64u})
    for (const std::size_t count : {1u, 2u, 5u}) {
      const auto results =
          run_side_by_side(behind(fl::broadcast(counted(1000).finite(), count, {.capacity = 3}), workers));
      CHECK(results.size() == count);
      for (const auto& result : results) {
        CHECK(result.items == count_to(1000));
        CHECK(!result.failed);
      }
    }
}

TEST_CASE("Each item of a split goes to one branch, the one that partition selects") {
  const watchdog guard("a split");
  constexpr auto key = [](int n) { return n / 2; };
  const auto results =
      run_side_by_side(behind(fl::split(counted(1000).finite(), {70, 20, 10}, key, {.capacity = 3}), 2));
  REQUIRE(results.size() == 3);
  for (std::size_t part = 0; part < 3; ++part)
    CHECK(results[part].items ==
          collect((fl::from(count_to(1000)) | fl::partition({70, 20, 10}, part, key)).finite()));
  CHECK(results[0].items.size() > results[1].items.size());

  const auto words = fl::from(std::vector<std::string>{"a", "b", "c", "d"}) | fl::prefetch(1);
  auto parts = fl::split(words.finite(), {1, 1}, [](const std::string& word) { return word; });
  CHECK(collect((parts[0] | fl::prefetch(1)).finite()).size() +
            collect((parts[1] | fl::prefetch(1)).finite()).size() ==
        4);
}

TEST_CASE("Items of a split needn't be copyable") {
  const watchdog guard("a split of move-only items");
  const auto pipeline = fl::from(count_to(50)) | fl::map([](int n) { return std::make_unique<int>(n); });
  auto parts = fl::split(pipeline.finite(), {1, 1}, [](const auto& p) { return *p; });
  std::size_t came = 0;
  for (const auto& part : parts) {
    auto loader = (part | fl::map([](const auto& p) { return *p; })).finite();
    while (loader.next()) ++came;
  }
  CHECK(came == 50);
}

TEST_CASE("A slow branch makes the others wait") {
  const watchdog guard("a slow branch");
  std::atomic<int> made = 0;
  auto branches = fl::broadcast(
      (fl::from(count_to(1000)) | fl::map([&](int n) { return ++made, n; }) | fl::prefetch(1)).finite(), 2,
      {.capacity = 4});
  auto first = (branches[0] | fl::prefetch(1)).finite();
  for (int n = 0; n < 5; ++n) CHECK(first.next() == n); // the thread that fills both holds one more
  CHECK(!first.next_for(std::chrono::milliseconds(20)));
  CHECK(made < 20);
  auto second = (branches[1] | fl::prefetch(1)).finite();
  for (int n = 0; n < 1000; ++n) {
    CHECK(second.next() == n);
    if (n >= 5) CHECK(first.next() == n);
  }
}

TEST_CASE("A branch that drops items makes no other branch wait") {
  const watchdog guard("branches that drop");
  for (const fl::overflow overflow : {fl::overflow::drop_oldest, fl::overflow::drop_newest}) {
    auto branches = fl::broadcast(counted(1000).finite(), 2, {.capacity = 4, .overflow = overflow});
    while (branches[1].dropped() < 996) std::this_thread::yield();
    const auto left = collect((branches[1] | fl::prefetch(1)).finite());
    CHECK(left == (overflow == fl::overflow::drop_oldest ? std::vector{996, 997, 998, 999} : count_to(4)));
    CHECK(branches[0].dropped() == 996);
    CHECK(branches[0].size_approx() == 4);
  }
}

TEST_CASE("A branch that has ended, or is gone, makes no other branch wait") {
  const watchdog guard("branches that are gone");
  SECTION("early break") {
    auto branches = fl::broadcast(counted(1000).finite(), 2, {.capacity = 2});
    {
      auto loader = (branches[0] | fl::map(same, fl::workers{3})).infinite();
      CHECK(loader.next() == 0);
    }
    CHECK(collect((branches[1] | fl::prefetch(1)).finite()) == count_to(1000));
    CHECK(collect((branches[0] | fl::prefetch(1)).finite()).size() <= 2); // the items in its buffer
  }
  SECTION("no handle left") {
    auto branches = fl::broadcast(counted(1000).finite(), 2, {.capacity = 2});
    branches.erase(branches.begin());
    CHECK(collect((branches[0] | fl::prefetch(1)).finite()) == count_to(1000));
  }
  SECTION("a split") {
    auto parts = fl::split(counted(1000).finite(), {1, 1}, same, {.capacity = 2});
    parts.pop_back();
    CHECK(collect((parts[0] | fl::prefetch(1)).finite()).size() > 400);
  }
  SECTION("stopped") {
    auto branches = fl::broadcast(counted(1000).finite(), 2, {.capacity = 2});
    auto loader = (branches[0] | fl::prefetch(1)).infinite();
    loader.stop();
    CHECK(collect((branches[1] | fl::prefetch(1)).finite()) == count_to(1000));
  }
}

TEST_CASE("A branch that its run didn't come to makes no other branch wait once that run has ended") {
  const watchdog guard("branches that weren't read");
  const std::vector<int> old(100'000);
  const auto check = [&](const auto& make, fl::infinite_options options = {}) {
    const auto branches = fl::broadcast(counted(1000).finite(), 2, {.capacity = 2});
    const auto pipeline = make(branches[0]) | fl::prefetch(1);
    CHECK(pipeline.infinite(options).next() ==
          (options.stop.stop_requested() ? std::nullopt : std::optional(0)));
    CHECK(collect((branches[1] | fl::prefetch(1)).finite()) == count_to(1000));
  };
  const auto after_old = [&](auto& b) { return fl::concat(fl::from(old), b); };
  check(after_old);
  check([&](auto& b) { return fl::mix(fl::weighted(fl::from(old), 1e9), fl::weighted(b, 1e-9)); });
  std::stop_source stopped;
  stopped.request_stop();
  check(after_old, {.stop = stopped.get_token()});
  check([](auto& b) { return b | fl::map(same); }, {.stop = stopped.get_token()});
}

TEST_CASE("When no branch needs more items, the upstream run is stopped") {
  const watchdog guard("branches that need no more items");
  std::atomic<int> made = 0;
  const auto endless =
      fl::generate([&made, n = 0]() mutable { return ++made, std::optional(n++); }) | fl::prefetch(1);
  auto branches = fl::broadcast(endless.infinite(), 2, {.capacity = 2});
  {
    auto first = (branches[0] | fl::prefetch(1)).infinite();
    auto second = (branches[1] | fl::prefetch(1)).infinite();
    CHECK(first.next() == 0);
    CHECK(second.next() == 0);
  }
  // The handles still exist, but no more items are produced.
  for (int before = -1; before != made;) {
    before = made;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  CHECK(made < 100);
}

TEST_CASE("A failure upstream reaches every branch at its position") {
  const watchdog guard("a failure upstream of branches");
  const auto failing = fl::from(count_to(100)) | fl::map(mapping(refusing{{30}}), fl::workers{2});
  for (const auto& result :
       run_side_by_side(behind(fl::broadcast(failing.finite(), 3, {.capacity = 2}), 2))) {
    CHECK(result.items == count_to(30));
    REQUIRE(result.failed);
    CHECK(result.failed->stage == "branch");
    CHECK(result.failed->message.find("map failed on sample 30") != std::string::npos);
  }
  for (const auto& result :
       run_side_by_side(behind(fl::broadcast(failing.finite({.on_error = fl::on_error::skip}), 2), 2)))
    CHECK(result.items.size() == 99);

  auto parts = fl::split(counted(10).finite(), {1, 1}, [](int n) {
    if (n == 7) throw std::runtime_error("no key");
    return n;
  });
  for (const auto& part : parts) {
    const auto result = run_to_end((part | fl::prefetch(1)).finite());
    REQUIRE(result.failed);
    CHECK(result.failed->message.find("no key") != std::string::npos);
  }
}

TEST_CASE("A stop upstream ends every branch, and a stop of a branch wakes it") {
  const watchdog guard("stops of branches");
  fl::push_source<int> feed;
  std::stop_source stop;
  auto branches = fl::broadcast((feed | fl::prefetch(1)).infinite({.stop = stop.get_token()}), 2);
  feed.push(1);
  auto first = (branches[0] | fl::prefetch(1)).infinite();
  auto second = (branches[1] | fl::prefetch(1)).infinite();
  CHECK(first.next() == 1);
  std::jthread stopper([&] { first.stop(); });
  CHECK(!first.next());
  CHECK(second.next() == 1);
  stop.request_stop();
  CHECK(!second.next());
}

TEST_CASE("Branches of branches end in any order of destruction, and leak no memory") {
  const watchdog guard("branches of branches");
  lifetimes all;
  for (int round = 0; round < 50; ++round) {
    const auto make = fl::from(count_to(200)) |
                      fl::map([&](int n) { return std::make_shared<counted_item>(all, n); }, fl::workers{2});
    auto outer = fl::broadcast(make.infinite(), 2, {.capacity = 3});
    auto inner = fl::broadcast((outer[0] | fl::prefetch(2)).infinite(), 2, {.capacity = 1});
    auto a = (inner[0] | fl::prefetch(1)).infinite();
    auto b = (inner[1] | fl::prefetch(1)).infinite();
    auto c = (outer[1] | fl::prefetch(1)).infinite();
    if (round % 2 == 0) outer.clear();
    for (int n = 0; n < round % 7; ++n) CHECK((*a.next())->value() == (*b.next())->value());
    if (round % 3 == 0) inner.clear();
    if (round % 3 == 1) c.stop();
    if (round % 5 == 1) a.stop();
  }
  CHECK(all.live() == 0);
}

TEST_CASE("A branch shows the metrics of the upstream run, and its memory in the plan") {
  const watchdog guard("metrics of branches");
  auto branches = fl::broadcast(counted(10).finite(), 1, {.capacity = 20});
  const auto pipeline = branches[0] | fl::prefetch(4);
  CHECK(pipeline.memory().bytes());
  CHECK(collect(pipeline.finite()).size() == 10);
  CHECK(branches[0].upstream_metrics().total.stages.at(0).name == "from");
  CHECK(branches[0].upstream_metrics().total.consumer.items == 10);
  CHECK(!decltype(pipeline.finite())::has_checkpoints);
}

TEST_CASE("Invalid arguments of broadcast and split are errors") {
  CHECK(throws_saying<std::invalid_argument>("at least one branch",
                                             [] { fl::broadcast(counted(1).finite(), 0); }));
  CHECK(throws_saying<std::invalid_argument>("capacity must be at least 1",
                                             [] { fl::broadcast(counted(1).finite(), 2, {.capacity = 0}); }));
  CHECK(throws_saying<std::invalid_argument>("weights", [] { fl::split(counted(1).finite(), {}, same); }));
  CHECK(throws_saying<std::invalid_argument>("weight", [] {
    fl::split(counted(1).finite(), {1, -1}, same);
  }));
}
