// SPDX-License-Identifier: MIT
#include <feedline/cache/cache.hpp>

#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/filter.hpp>
#include <feedline/stage/flat_map.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>
#include <feedline/stage/tap.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/cached.hpp"
#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/refusing.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using fl::test::collect;
using fl::test::count_to;
using fl::test::counted;
using fl::test::in_runs;
using fl::test::plenty;
using fl::test::run_to_end;
using fl::test::twice_and_text;

namespace {

using cached_numbers =
    decltype(fl::from(std::vector<int>()) | fl::map(counted()) | fl::cache({.memory_bytes = 1}));
static_assert(std::is_same_v<cached_numbers::item, int>);
using cached_texts = decltype(fl::from(std::vector<int>()) | fl::flat_map(twice_and_text, fl::workers{2}) |
                              fl::cache({.memory_bytes = 1}));
static_assert(std::is_same_v<cached_texts::item, std::string>);

/// Whether ranks of it yield equally many samples, and one of them knows the position of all.
template <class Pipeline>
constexpr bool keeps_equal = []<class... Stage>(fl::detail::types<Stage...>) {
  return ((fl::detail::traits_of<Stage>().position_from_last_sample &&
           fl::detail::traits_of<Stage>().data_independent_count) &&
          ...);
}(typename Pipeline::segments::stage_types());

static_assert(keeps_equal<cached_numbers>);
static_assert(!keeps_equal<cached_texts>);

} // namespace

TEST_CASE("from the second epoch on the stages upstream of a cache compute nothing") {
  const counted f;
  const auto kept = fl::cache({.memory_bytes = plenty});
  const auto p = fl::from(count_to(100)) | fl::global_shuffle() | fl::map(f) | kept | fl::batch(10);
  std::vector<int> all;
  for (const auto& batch : p.finite({.seed = 1, .epochs = 3}))
    all.insert(all.end(), batch.values().begin(), batch.values().end());
  CHECK(f.since_last() == 100);
  REQUIRE(all.size() == 300);
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i) REQUIRE(all[i] == 3 * static_cast<int>(i / 3));
  CHECK(kept.stats().hits == 200);
  CHECK(kept.stats().misses == 100);
  CHECK(kept.stats().bytes > 0);
  CHECK_FALSE(kept.stats().full);

  // Nor do they in later runs of this pipeline and its copies, with any seed.
  const auto copy = p;
  collect(copy.finite({.seed = 2}));
  auto loader = p.infinite();
  for (int i = 0; i < 25; ++i) loader.next();
  CHECK(f.since_last() == 0);
}

TEST_CASE("a cache may be part of a row of stages without a source") {
  const counted f;
  const auto kept = fl::cache({.memory_bytes = plenty});
  const auto row = fl::map(f, fl::workers{2}) | kept;
  const auto p = fl::from(count_to(10)) | row | fl::batch(10);
  collect(p.finite());
  const auto batches = collect(p.finite());
  REQUIRE(batches.size() == 1);
  CHECK(batches[0].values()[9] == 27);
  CHECK(f.since_last() == 10);
  CHECK(kept.stats().hits == 10);

  // It caches all stages upstream of it, and another cache may follow the row.
  const counted g;
  const auto longer = row | fl::map(g);
  const auto all =
      fl::from(count_to(10)) | fl::map(g) | (longer | fl::cache({.memory_bytes = plenty})) | fl::prefetch(1);
  const auto values = collect(all.finite());
  REQUIRE(values.size() == 10);
  CHECK(values[9] == 9 * 27);
  CHECK(collect(all.finite()) == values);
  CHECK(f.since_last() == 10);
  CHECK(g.since_last() == 20);
}

TEST_CASE("workers share a cache") {
  const counted f;
  for (const std::size_t n : {std::size_t{1}, std::size_t{3}, std::size_t{64}}) {
    const auto p = fl::from(count_to(500)) | fl::global_shuffle() | fl::map(f, fl::workers{n}) |
                   fl::cache({.memory_bytes = plenty}) | fl::batch(10);
    const auto first = in_runs(p, 1);
    CHECK(f.since_last() == 500);
    const auto second = in_runs(p, 1);
    CHECK(f.since_last() == 0);
    for (std::size_t i = 0; i < first.size(); ++i)
      REQUIRE(std::equal(first[i].values().begin(), first[i].values().end(), second[i].values().begin()));
  }
}

TEST_CASE("a failure arrives in its position, with the name of its stage, and isn't stored") {
  const counted f;
  for (const std::size_t n : fl::test::worker_counts) {
    const auto p = fl::from(fl::test::numbers(20)) | fl::map(f, fl::workers{n}) |
                   fl::map(fl::test::refusing{{36}}, fl::name{"check"}, fl::workers{n}) |
                   fl::cache({.memory_bytes = plenty}) | fl::prefetch(2);
    for (int times = 0; times < 2; ++times) {
      const auto outcome = run_to_end(p.finite());
      CHECK(outcome.items.size() == 12);
      REQUIRE(outcome.failed);
      CHECK(to_string(*outcome.failed) == "map `check` failed on sample 12 (number 12): unlucky 36");
      try {
        collect(p.finite());
        FAIL("no error");
      } catch (const fl::pipeline_error& error) {
        CHECK(error.cause<fl::test::unlucky>() != nullptr);
      }
    }
  }
}

TEST_CASE("failures downstream of a cache keep their names, and failures upstream of it are counted") {
  const auto p = fl::from(count_to(50)) |
                 fl::map(fl::test::refusing{{3, 4}}, fl::name{"first"}, fl::workers{2}) |
                 fl::cache({.memory_bytes = plenty}) | fl::map(fl::test::refusing{{5}}, fl::name{"second"}) |
                 fl::batch(10);
  for (int times = 0; times < 2; ++times) {
    auto loader = p.finite({.on_error = fl::on_error::skip});
    while (loader.next()) continue;
    REQUIRE(loader.failures().size() == 3);
    CHECK(loader.failures()[1].stage == "map `first`");
    CHECK(loader.failures()[2].stage == "map `second`");
    const auto metrics = loader.metrics().total;
    CHECK(metrics.stages[1].name == "map `first` | cache");
    CHECK(metrics.stages[1].received == 50);
    CHECK(metrics.stages[1].emitted == 48);
    CHECK(metrics.stages[1].failures == 2);
    CHECK(metrics.stages[2].failures == 1);
  }
  std::vector<std::uint32_t> epochs;
  for (const fl::failure& f : run_to_end(p.finite({.epochs = 2, .on_error = fl::on_error::skip})).skipped)
    epochs.push_back(f.epoch);
  CHECK(epochs == std::vector<std::uint32_t>{0, 0, 0, 1, 1, 1});
}

TEST_CASE("cached functions see a sample as in epoch 0, whatever the epoch and the seed") {
  std::atomic<int> strange{0};
  const auto noise = [&](int n, fl::context& c) {
    if (c.epoch != 0 || c.index != static_cast<std::uint64_t>(n)) ++strange;
    return std::to_string(n) + ":" + std::to_string(c.random.uniform());
  };
  const auto make = [&](std::uint64_t bytes) {
    return fl::from(count_to(30)) | fl::global_shuffle() | fl::map(noise, fl::workers{2}) |
           fl::cache({.memory_bytes = bytes});
  };
  auto first = collect((make(plenty) | fl::prefetch(1)).finite({.seed = 1}));
  // Nothing is stored here, so that everything is computed in the epoch itself.
  auto later = collect((make(1) | fl::prefetch(1)).finite({.seed = 2, .epochs = 2}));
  std::sort(first.begin(), first.end());
  std::sort(later.begin(), later.end());
  REQUIRE(later.size() == 60);
  for (std::size_t i = 0; i < 60; ++i) CHECK(later[i] == first[i / 2]);
  CHECK(std::unique(first.begin(), first.end(), [](const auto& a, const auto& b) {
          return a.substr(a.find(':')) == b.substr(b.find(':'));
        }) == first.end());

  // Downstream of the cache nothing changes.
  const auto behind =
      make(plenty) | fl::map([](const std::string&, fl::context& c) { return c.random.uniform(); });
  auto numbers = collect((behind | fl::prefetch(1)).finite({.seed = 2, .epochs = 2}));
  std::sort(numbers.begin(), numbers.end());
  CHECK(std::unique(numbers.begin(), numbers.end()) == numbers.end());
  CHECK(strange == 0);
}

TEST_CASE("a full cache stores nothing more, never exceeds its bytes, and still serves what it has") {
  const counted f;
  const auto kept = fl::cache({.memory_bytes = 10'000});
  const auto make = [&](std::size_t n) {
    return fl::from(count_to(500)) | fl::map(f, fl::workers{n}) |
           fl::map([](int x) { return std::vector<int>(10, x); }, fl::workers{n}) | kept |
           fl::batch(25, fl::as_list);
  };
  for (const std::size_t n : {std::size_t{1}, std::size_t{16}}) {
    const auto p = make(n);
    const auto before = kept.stats();
    for (int run = 0; run < 3; ++run) {
      int x = 0;
      for (const auto& batch : p.finite())
        for (const std::vector<int>& value : batch.values()) REQUIRE(value == std::vector<int>(10, 3 * x++));
      REQUIRE(x == 500);
      CHECK(kept.stats().bytes <= 10'000);
      CHECK(kept.stats().full);
    }
    if (n > 1) continue; // no room: another pipeline shares the cache with the first one
    CHECK(kept.stats().hits - before.hits == 2 * static_cast<std::uint64_t>(1500 - f.since_last()) / 2);
    CHECK(kept.stats().hits > 60);
  }
}

TEST_CASE("one worker at a time calls a stage that was given one thread") {
  std::atomic<int> inside{0};
  bool ever_two = false; // ThreadSanitizer reports it if two write it at once
  const auto alone = [&](int n) {
    ever_two |= ++inside != 1;
    std::this_thread::yield();
    --inside;
    return n + 1;
  };
  int seen = 0;
  const auto p = fl::from(count_to(3000)) | fl::map(alone) | fl::map(counted(), fl::workers{8}) |
                 fl::tap([&](int) { ++seen; }) | fl::flat_map(twice_and_text) |
                 fl::cache({.memory_bytes = plenty}) | fl::batch(100, fl::as_list);
  std::size_t count = 0;
  for (const auto& batch : in_runs(p, 2)) count += batch.size();
  CHECK_FALSE(ever_two);
  CHECK(seen == 3000);
  CHECK(count == 0); // of thirds
}

TEST_CASE("the result of a function that was asked to stop isn't stored") {
  std::atomic<bool> stopped{false}, started{false};
  const auto gives_up = [&](int n, fl::context& c) {
    if (n < 1 || stopped) return n;
    started = true;
    started.notify_one();
    while (!c.stop.stop_requested()) std::this_thread::yield();
    return -1;
  };
  const auto p =
      fl::from(count_to(10)) | fl::map(gives_up) | fl::cache({.memory_bytes = plenty}) | fl::prefetch(1);
  {
    auto loader = p.finite();
    loader.next();
    started.wait(false);
  }
  stopped = true;
  CHECK(collect(p.finite()) == count_to(10));
}

TEST_CASE("a queue that drops items stays between a cache and the stages upstream of the queue") {
  const counted upstream, cached;
  const auto p = fl::from(count_to(20)) | fl::map(upstream, fl::workers{2}) |
                 fl::prefetch<fl::overflow::drop_oldest>(4) | fl::map(cached) |
                 fl::cache({.memory_bytes = plenty});
  static_assert(decltype(p)::segments::drops);
  CHECK(collect(p.finite()).size() <= 20);
  CHECK(upstream.since_last() == 20);
  collect(p.finite());
  CHECK(upstream.since_last() == 20); // not cached
}

TEST_CASE("unordered workers emit everything, in some order") {
  const counted f;
  const auto p = fl::from(count_to(200)) | fl::map(f, fl::workers{4}, fl::unordered) |
                 fl::cache({.memory_bytes = plenty}) | fl::batch(7);
  std::vector<int> all;
  for (const auto& batch : in_runs(p, 2)) all.insert(all.end(), batch.values().begin(), batch.values().end());
  std::sort(all.begin(), all.end());
  REQUIRE(all.size() == 400);
  for (std::size_t i = 0; i < all.size(); ++i) REQUIRE(all[i] == 3 * static_cast<int>(i / 2));
  CHECK(f.since_last() == 200);
}

TEST_CASE("a second cache stores the results of the stages between the two, and the first one serves other "
          "pipelines too") {
  const counted f, g;
  const auto both = fl::from(count_to(30)) | fl::map(f, fl::workers{2}) |
                    fl::cache({.memory_bytes = plenty}) | fl::map(g, fl::workers{2}) |
                    fl::cache({.memory_bytes = plenty}) | fl::prefetch(1);
  const auto values = in_runs(both, 2);
  CHECK(values[59] == 9 * 29);
  CHECK(f.since_last() == 30);
  CHECK(g.since_last() == 30);

  const auto first_alone = fl::from(count_to(30)) | fl::map(fl::test::refusing{{4, 20}}, fl::name{"check"}) |
                           fl::cache({.memory_bytes = plenty}) | fl::map(g, fl::workers{3}) |
                           fl::cache({.memory_bytes = plenty}) | fl::prefetch(1);
  for (int times = 0; times < 2; ++times) {
    const auto outcome = run_to_end(first_alone.finite({.on_error = fl::on_error::skip}));
    CHECK(outcome.items.size() == 28);
    CHECK(outcome.skipped_indices() == std::vector<std::uint64_t>{4, 20});
    CHECK(outcome.skipped.at(1).stage == "map `check`");
  }
  CHECK(g.since_last() == 28);
}

TEST_CASE("invalid options are refused") {
  CHECK_THROWS_AS(fl::cache({}), std::invalid_argument);
  CHECK_THROWS_AS(fl::cache({.memory_bytes = 1, .directory = "x", .directory_bytes = 1}),
                  std::invalid_argument);
  CHECK_THROWS_AS(fl::cache({.directory = "x"}), std::invalid_argument);
  CHECK_THROWS_AS(fl::cache({.memory_bytes = 1, .directory_bytes = 1}), std::invalid_argument);
}
