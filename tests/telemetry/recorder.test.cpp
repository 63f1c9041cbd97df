// SPDX-License-Identifier: MIT
// The recorded intervals add up to the whole run, whichever of recorder and loader ends first.
#include <feedline/telemetry/recorder.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <thread>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;
using namespace std::chrono_literals;

namespace {

/// Its consumer takes as long as it wishes.
auto pipeline() {
  return fl::from(std::views::iota(0, 3000)) | fl::map([](int n) { return n; }, fl::workers{2}) |
         fl::batch(3);
}

std::uint64_t items_of(const std::vector<fl::recorded_interval>& all) {
  std::uint64_t items = 0;
  for (const fl::recorded_interval& i : all) items += i.metrics.consumer.items;
  return items;
}

} // namespace

TEST_CASE("A recorder's intervals add up to the run") {
  const watchdog dog("recorder");
  auto loader = pipeline().finite();
  fl::recorder recorder(loader, {.every = 1ms});
  for (std::size_t some = 1; some <= 3; ++some) { // at whatever pace the recorder's thread gets its turn
    REQUIRE(loader.next());
    while (recorder.intervals().size() < some) std::this_thread::yield();
  }
  while (loader.next()) {
  }
  recorder.stop();
  recorder.stop();
  const auto all = recorder.intervals();
  CHECK(items_of(all) == 1000);
  double seconds = 0, end = 0;
  for (const fl::recorded_interval& i : all) {
    CHECK(i.end > end);
    CHECK(i.metrics.seconds > 0);
    end = i.end;
    seconds += i.metrics.seconds;
  }
  CHECK(recorder.total().consumer.items == 1000);
  CHECK(seconds <= recorder.total().seconds + 0.001);
  CHECK(fl::to_string(recorder.memory()) == fl::to_string(loader.memory()));
}

TEST_CASE("A recorder that outlives its loader keeps what that did up to its end") {
  const watchdog dog("outliving recorder");
  std::optional<fl::recorder> recorder;
  {
    auto loader = pipeline().infinite();
    recorder.emplace(loader, fl::recorder_options{.every = 1h, .last = 2h});
    for (int i = 0; i < 10; ++i) REQUIRE(loader.next());
    CHECK(recorder->intervals().empty());
  }
  recorder->stop();
  CHECK(items_of(recorder->intervals()) == 10);
  CHECK(recorder->total().consumer.items == 10);
}

TEST_CASE("A recorder ends by itself after its loader") {
  const watchdog dog("ending recorder");
  std::optional<fl::recorder> recorder;
  {
    auto loader = pipeline().finite();
    recorder.emplace(loader, fl::recorder_options{.every = 1ms});
    for (int i = 0; i < 10; ++i) REQUIRE(loader.next());
  }
  while (items_of(recorder->intervals()) < 10) {
  }
  CHECK(items_of(recorder->intervals()) == 10);
}

TEST_CASE("A recorder keeps only the last intervals") {
  const watchdog dog("bounded recorder");
  auto loader = pipeline().infinite();
  fl::recorder recorder(loader, {.every = 500ms, .last = 1s});
  while (recorder.intervals().size() < 2) REQUIRE(loader.next());
  const double first = recorder.intervals().front().end;
  while (recorder.intervals().front().end == first) REQUIRE(loader.next());
  CHECK(recorder.intervals().size() == 2);
  CHECK(recorder.total().consumer.items >= items_of(recorder.intervals()));
}

TEST_CASE("A recorder of a loader without a run is empty") {
  auto loader = pipeline().finite();
  const auto moved = std::move(loader);
  fl::recorder recorder(loader);
  recorder.stop();
  CHECK(recorder.intervals().empty());
  CHECK(recorder.total().seconds == 0);
}

TEST_CASE("A recorder refuses intervals that make no sense") {
  auto loader = pipeline().finite();
  const auto refuses = [&](fl::recorder_options o) {
    return throws_saying<std::invalid_argument>("an interval must be at least 1 ms long",
                                                [&] { fl::recorder recorder(loader, o); });
  };
  CHECK(refuses({.every = 0ms}));
  CHECK(refuses({.every = -5ms}));
  CHECK(refuses({.every = 2s, .last = 1s}));
}
