// SPDX-License-Identifier: MIT
#include <feedline/core/any_loader.hpp>

#include <chrono>
#include <memory>
#include <ranges>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

using numbers = fl::batch_of<int>;
using loader = fl::any_loader<numbers>;

static_assert(std::is_nothrow_move_constructible_v<loader> && !std::is_copy_constructible_v<loader>);
static_assert(std::is_copy_constructible_v<fl::any_pipeline<numbers>>);
static_assert(std::ranges::input_range<loader>);
static_assert(!std::is_constructible_v<fl::any_loader<int>, loader>);

fl::any_pipeline<numbers> doubled(int count) {
  return fl::from(count_to(count)) | fl::map([](int n) { return 2 * n; }, fl::workers{2}) | fl::batch(4);
}

std::vector<int> values_of(const numbers& batch) { return {batch.values().begin(), batch.values().end()}; }

} // namespace

TEST_CASE("An any_loader behaves like the loader it holds") {
  const watchdog guard("a loader of any pipeline");
  const fl::any_pipeline<numbers> pipeline = doubled(10);
  loader run = pipeline.finite();
  CHECK(run.state() == fl::run_state::running);
  CHECK(values_of(*run.next()) == std::vector{0, 2, 4, 6});
  const fl::checkpoint place = run.checkpoint();
  CHECK(values_of(*run.next_for(std::chrono::hours(1))) == std::vector{8, 10, 12, 14});
  std::vector<int> rest;
  for (const numbers& batch : run) rest = values_of(batch);
  CHECK(rest == std::vector{16, 18});
  CHECK(run.try_next().has_ended());
  CHECK(run.state() == fl::run_state::finished);
  CHECK_THROWS_AS(run.begin(), std::logic_error);
  CHECK(run.metrics().total.consumer.items == 3);
  CHECK(run.memory().bytes() == pipeline.memory().bytes());

  loader again = pipeline.finite({.resume = place});
  again.next();
  CHECK(values_of(*again.next()) == std::vector{16, 18});
  CHECK(again.digest() == run.digest());
}

TEST_CASE("An any_loader stops, fails and skips like the loader it holds") {
  const watchdog guard("endings of any pipeline");
  loader endless = doubled(10).infinite();
  for (int i = 0; i < 10; ++i) endless.next();
  endless.stop();
  CHECK(endless.stopped());
  CHECK(!endless.next());
  CHECK(endless.state() == fl::run_state::stopped);

  const fl::any_pipeline<numbers> failing = fl::from(count_to(10)) | fl::map([](int n) {
                                              if (n == 5) throw std::runtime_error("broken");
                                              return n;
                                            }) |
                                            fl::batch(4);
  loader run = failing.finite();
  run.next();
  CHECK_THROWS_AS(run.next(), fl::pipeline_error);
  CHECK(run.state() == fl::run_state::failed);
  loader skipping = failing.finite({.on_error = fl::on_error::skip});
  while (skipping.next()) {
  }
  CHECK(skipping.failures().size() == 1);
}

TEST_CASE("A loader without a run behaves as a stopped one") {
  loader none;
  CHECK(none.stopped());
  CHECK(none.state() == fl::run_state::stopped);
  CHECK(!none.next());
  CHECK(none.try_next().has_ended());
  CHECK(none.begin() == none.end());
  CHECK(none.failures().empty());
  CHECK(none.digest() == 0);
  CHECK(none.metrics().total.stages.empty());
  none.stop();
  CHECK_THROWS_AS(none.checkpoint(), std::logic_error);
  none = doubled(4).finite(); // as for a member that is assigned later
  CHECK(values_of(*none.next()) == std::vector{0, 2, 4, 6});
}

TEST_CASE("checkpoint() throws where that of the loader wouldn't compile") {
  const watchdog guard("unordered workers");
  const fl::any_pipeline<numbers> pipeline =
      fl::from(count_to(10)) | fl::map([](int n) { return n; }, fl::workers{2}, fl::unordered) | fl::batch(4);
  loader run = pipeline.finite();
  run.next();
  CHECK(throws_saying<std::logic_error>("can't be resumed", [&] { run.checkpoint(); }));
}
