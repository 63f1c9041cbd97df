// SPDX-License-Identifier: MIT
#include <feedline/stage/shuffle.hpp>

#include <feedline/source/push_source.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/filter.hpp>
#include <feedline/stage/map.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/by_hand.hpp"
#include "support/catch.hpp"
#include "support/lifetimes.hpp"
#include "support/outcome.hpp"
#include "support/refusing.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using fl::test::collect;
using fl::test::count_to;
using fl::test::run_to_end;
using fl::test::worker_counts;

namespace {

struct item_whose_assignment_throws {
  item_whose_assignment_throws(item_whose_assignment_throws&&) noexcept;
  item_whose_assignment_throws& operator=(item_whose_assignment_throws&&);
};

static_assert(fl::stage_for<decltype(fl::shuffle({.capacity = 1})), std::unique_ptr<int>>);
static_assert(!fl::stage_for<decltype(fl::shuffle({.capacity = 1})), item_whose_assignment_throws>);
static_assert(std::is_same_v<fl::stage_output_t<decltype(fl::shuffle({.capacity = 1})), short>, short>);

/// A shuffle that receives 0, 1, … by direct calls.
class hand_fed {
 public:
  hand_fed(const fl::shuffle_options& options, std::uint64_t key) : stage_(fl::shuffle(options), key) {}

  /// Adds the next number and returns the numbers that are emitted for it.
  std::vector<int> feed() { return numbers(stage_.feed(fed_++)); }

  std::vector<int> finish() { return numbers(stage_.finish()); }

 private:
  static std::vector<int> numbers(const std::vector<fl::sample<int>>& samples) {
    std::vector<int> all;
    for (const auto& s : samples)
      all.push_back(s.id.index == static_cast<std::uint64_t>(s.value) ? s.value : -1);
    return all;
  }

  fl::test::by_hand<int, decltype(fl::shuffle({.capacity = 1}))> stage_;
  int fed_ = 0;
};

/// 0 … size - 1 in the order in which they are emitted.
std::vector<int> global_shuffle(int size, const fl::shuffle_options& options, std::uint64_t key) {
  hand_fed stage(options, key);
  std::vector<int> all;
  for (int i = 0; i < size; ++i)
    for (const int item : stage.feed()) all.push_back(item);
  for (const int item : stage.finish()) all.push_back(item);
  return all;
}

/// How often each input is emitted at each position, and how often theory expects it.
struct counts {
  counts(std::size_t size, const fl::shuffle_options& options, std::size_t rounds)
      : size_(size), seen(size * size), expected(size * size) {
    for (std::size_t round = 0; round < rounds; ++round) {
      const std::vector<int> order = global_shuffle(static_cast<int>(size), options, round);
      for (std::size_t place = 0; place < size; ++place)
        ++seen[static_cast<std::size_t>(order[place]) * size + place];
    }
    // Each input inside is equally likely to leave. The number of inputs inside depends on counts alone.
    hand_fed stage(options, 0);
    std::vector<double> inside(size, 0.0); // the probability that an input is in the buffer
    double fill = 0;
    std::size_t place = 0;
    const auto leave = [&](std::size_t times) {
      for (; times > 0; --times, ++place, --fill)
        for (std::size_t i = 0; i < size; ++i) {
          expected[i * size + place] = static_cast<double>(rounds) * inside[i] / fill;
          inside[i] -= inside[i] / fill;
        }
    };
    for (std::size_t i = 0; i < size; ++i) {
      inside[i] = 1;
      ++fill;
      leave(stage.feed().size());
    }
    leave(stage.finish().size());
  }

  /// Pearson's statistic less its degrees of freedom, in standard deviations. Cells whose expected count is
  /// too small are combined, position by position.
  double deviation() const {
    double statistic = 0;
    std::size_t freedom = 0;
    for (std::size_t place = 0; place < size_; ++place) {
      double rare_seen = 0, rare_expected = 0;
      std::size_t cells = 0;
      const auto add = [&](double s, double e) {
        if (e <= 0) return;
        statistic += (s - e) * (s - e) / e;
        ++cells;
      };
      for (std::size_t i = 0; i < size_; ++i) {
        const double s = seen[i * size_ + place], e = expected[i * size_ + place];
        if (e >= 10) add(s, e);
        else rare_seen += s, rare_expected += e;
      }
      add(rare_seen, rare_expected);
      freedom += cells - 1;
    }
    return (statistic - static_cast<double>(freedom)) / std::sqrt(2 * static_cast<double>(freedom));
  }

  bool only_where_expected() const {
    for (std::size_t i = 0; i < seen.size(); ++i)
      if (seen[i] > 0 && expected[i] <= 0) return false;
    return true;
  }

 private:
  std::size_t size_;

 public:
  std::vector<double> seen, expected; // input * size + position
};

auto numbers_on(std::size_t workers, int size, const fl::shuffle_options& options) {
  return fl::from(count_to(size)) | fl::map([](int i) { return i; }, fl::workers{workers}) |
         fl::shuffle(options);
}

std::vector<int> sorted(std::vector<int> items) {
  std::sort(items.begin(), items.end());
  return items;
}

} // namespace

TEST_CASE("shuffle refuses a capacity of 0 and a min_fill above the capacity") {
  CHECK_THROWS_AS(fl::shuffle({.capacity = 0}), std::invalid_argument);
  CHECK_THROWS_AS(fl::shuffle({.capacity = 4, .min_fill = 5}), std::invalid_argument);
  CHECK_NOTHROW(fl::shuffle({.capacity = 4, .min_fill = 4}));
}

TEST_CASE("shuffle emits nothing before min_fill items are inside, then never falls below it") {
  for (const std::size_t min_fill : {1u, 7u, 19u, 20u}) {
    hand_fed stage({.capacity = 20, .min_fill = min_fill}, 5);
    std::size_t inside = 0;
    for (std::size_t fed = 1; fed <= 100; ++fed) {
      const std::size_t out = stage.feed().size();
      ++inside;
      CHECK((out == 0 || inside >= min_fill));
      inside -= out;
      CHECK(inside + 1 >= std::min(fed, min_fill));
      CHECK(inside <= 20);
    }
    CHECK(inside == 19); // full except for the one that has just left
    CHECK(stage.finish().size() == 19);
  }
}

TEST_CASE("a min_fill of 0 keeps no item back: what a live source yields leaves at once, in its order") {
  const fl::test::watchdog guard("a min_fill of 0");
  hand_fed stage({.capacity = 20, .min_fill = 0}, 5);
  for (int i = 0; i < 100; ++i) CHECK(stage.feed() == std::vector{i});
  CHECK(stage.finish().empty());

  fl::push_source<int> source;
  auto loader = (source | fl::shuffle({.capacity = 1000, .min_fill = 0})).infinite();
  for (int i = 0; i < 20; ++i) {
    source.push(i);
    CHECK(loader.next() == i);
  }
  source.close();
  CHECK(!loader.next());

  const auto none = numbers_on(2, 30, {.capacity = 9, .min_fill = 0});
  CHECK(collect(none.finite({.seed = 3})) == count_to(30));
  auto first = none.infinite({.seed = 3});
  collect(first, 47);
  auto resumed = none.infinite({.resume = first.checkpoint()});
  CHECK(collect(resumed, 100) == collect(first, 100));
}

TEST_CASE("without a min_fill the first item stays until the second one arrives") {
  hand_fed stage({.capacity = 20}, 5), other({.capacity = 20, .min_fill = 1}, 5);
  for (int i = 0; i < 100; ++i) {
    const std::vector<int> emitted = stage.feed();
    CHECK(emitted.size() == (i >= 38 || i % 2 == 1 ? 1u : 0u));
    CHECK(emitted == other.feed());
  }
}

TEST_CASE("while it grows shuffle emits one item for two that arrive, then one for one") {
  hand_fed stage({.capacity = 10, .min_fill = 4}, 1);
  std::string schedule;
  for (int i = 0; i < 22; ++i) schedule += stage.feed().empty() ? '.' : 'x';
  CHECK(schedule == "....x.x.x.x.x.xxxxxxxx");
}

TEST_CASE("shuffle grows by a schedule that doesn't depend on the seed") {
  for (std::uint64_t key = 0; key < 20; ++key) {
    hand_fed stage({.capacity = 30, .min_fill = 3}, key), other({.capacity = 30, .min_fill = 3}, ~key);
    for (int i = 0; i < 100; ++i) REQUIRE(stage.feed().size() == other.feed().size());
  }
}

TEST_CASE("each order of a buffer that holds everything is equally likely") {
  // Inputs over positions, …
  const counts all(20, {.capacity = 20, .min_fill = 20}, 10'000);
  CHECK(std::abs(all.deviation()) < 4);
  for (const double e : all.expected) CHECK(e == Approx(500));
  // … and all 24 orders of four.
  std::vector<double> orders(256);
  for (std::uint64_t key = 0; key < 12'000; ++key) {
    std::size_t code = 0;
    for (const int item : global_shuffle(4, {.capacity = 9, .min_fill = 9}, key))
      code = 4 * code + static_cast<std::size_t>(item);
    ++orders[code];
  }
  double statistic = 0;
  for (const double n : orders)
    if (n > 0) statistic += (n - 500) * (n - 500) / 500;
  CHECK(std::count(orders.begin(), orders.end(), 0.0) == 256 - 24);
  CHECK(statistic < 23 + 4 * std::sqrt(46.0));
}

TEST_CASE(
    "each input is emitted at each position with the theoretical probability: growing, steady and drained") {
  for (const fl::shuffle_options options :
       {fl::shuffle_options{.capacity = 8, .min_fill = 8}, fl::shuffle_options{.capacity = 12, .min_fill = 3},
        fl::shuffle_options{.capacity = 10}}) {
    const counts all(50, options, 6'000);
    CHECK(all.only_where_expected());
    CHECK(std::abs(all.deviation()) < 4);
  }
}

TEST_CASE("in the steady state an item stays for capacity - 1 others on average, geometrically distributed") {
  constexpr std::size_t capacity = 50;
  constexpr int size = 200'000, warm_up = 2000;
  const std::vector<int> order = global_shuffle(size, {.capacity = capacity, .min_fill = capacity}, 11);
  double sum = 0, items = 0, at_once = 0, longer_than_100 = 0;
  for (int place = warm_up; place < size - warm_up; ++place) {
    // Position p is emitted when input p + capacity - 1 arrives.
    const int stay = place + int(capacity) - 1 - order[static_cast<std::size_t>(place)];
    sum += stay;
    ++items;
    at_once += stay == 0;
    longer_than_100 += stay >= 100;
  }
  CHECK(sum / items == Approx(49).epsilon(0.01));
  CHECK(at_once / items == Approx(1.0 / 50).epsilon(0.05));
  CHECK(longer_than_100 / items == Approx(std::pow(49.0 / 50, 100)).epsilon(0.05));
}

TEST_CASE("a run of shuffle yields every item once, in another order for each seed and epoch") {
  const auto p = numbers_on(1, 1000, {.capacity = 100, .min_fill = 50});
  const auto items = collect(p.finite({.seed = 1}));
  CHECK(items != count_to(1000));
  CHECK(sorted(items) == count_to(1000));
  CHECK(collect(p.finite({.seed = 1})) == items);
  CHECK(collect(p.finite({.seed = 2})) != items);

  const auto two = collect(p.finite({.seed = 1, .epochs = 2}));
  REQUIRE(two.size() == 2000);
  const std::vector first(two.begin(), two.begin() + 1000), second(two.begin() + 1000, two.end());
  CHECK(first == items);
  CHECK(second != first);
  CHECK(sorted(second) == count_to(1000));
}

TEST_CASE("two shuffles in a row draw different numbers") {
  const auto once =
      collect((fl::from(count_to(50)) | fl::shuffle({.capacity = 50, .min_fill = 50})).finite());
  const auto other = collect((fl::from(count_to(50)) | fl::map([](int i) { return i; }) |
                              fl::shuffle({.capacity = 50, .min_fill = 50}))
                                 .finite());
  CHECK(sorted(once) == sorted(other));
  CHECK(once != other);
}

TEST_CASE("shuffle's order doesn't depend on the number of workers upstream nor on the queues") {
  const fl::shuffle_options options{.capacity = 64, .min_fill = 10};
  const auto items = collect(numbers_on(1, 500, options).finite({.seed = 4, .epochs = 2}));
  const auto endless = collect(numbers_on(1, 150, options).infinite({.seed = 4}), 500);
  for (const std::size_t workers : worker_counts)
    for (const std::size_t capacity : {0u, 1u, 5u}) {
      CHECK(collect(numbers_on(workers, 500, options)
                        .finite({.seed = 4, .epochs = 2, .queue_capacity = capacity})) == items);
      CHECK(collect(numbers_on(workers, 150, options).infinite({.seed = 4, .queue_capacity = capacity}),
                    500) == endless);
    }
}

TEST_CASE("infinite mode passes from epoch to epoch without emptying the buffer") {
  const auto p = fl::from(count_to(100)) | fl::map([](int, fl::context& c) { return c.epoch; }) |
                 fl::shuffle({.capacity = 40, .min_fill = 40});
  const auto epochs = collect(p.infinite({.seed = 2}), 1000);
  // 39 items stay inside: items of the second epoch are emitted before the last of the first one.
  CHECK_FALSE(std::is_sorted(epochs.begin(), epochs.end()));
  CHECK(std::count(epochs.begin(), epochs.begin() + 61, 0u) == 61);
  CHECK(std::count(epochs.begin(), epochs.begin() + 100, 0u) < 100);
  const auto apart = collect(p.finite({.seed = 2, .epochs = 5}));
  CHECK(std::is_sorted(apart.begin(), apart.end()));
}

TEST_CASE("a buffer larger than an epoch fills over several ones in infinite mode") {
  const auto p = numbers_on(2, 10, {.capacity = 35, .min_fill = 35});
  const auto items = collect(p.infinite(), 100);
  REQUIRE(items.size() == 100);
  CHECK(std::set(items.begin(), items.end()).size() == 10);
}

TEST_CASE("a shuffle with room for one item keeps the order") {
  CHECK(collect(numbers_on(1, 20, {.capacity = 1}).finite()) == count_to(20));
}

TEST_CASE("an error upstream leaves out what shuffle holds, and a skip loses nothing else") {
  for (const std::size_t workers : worker_counts) {
    const auto without = [&](std::vector<int> refused) {
      return fl::from(count_to(100)) | fl::map(fl::test::refusing{std::move(refused)}, fl::workers{workers}) |
             fl::shuffle({.capacity = 30, .min_fill = 30});
    };
    const auto p = without({60});
    const auto result = run_to_end(p.finite());
    const auto whole = collect(without({}).finite());
    CHECK(result.items == std::vector(whole.begin(), whole.begin() + 31)); // 60 arrived, and 29 are held
    REQUIRE(result.failed);
    CHECK(result.failed->index == 60);
    const auto skipping = run_to_end(p.finite({.on_error = fl::on_error::skip}));
    CHECK(skipping.items.size() == 99);
    CHECK(skipping.skipped_indices() == std::vector<std::uint64_t>{60});
  }
}

TEST_CASE("a shuffle that is left early drops what it holds") {
  fl::test::lifetimes all;
  const auto p = fl::from(count_to(100)) | fl::map([&](int i) { return fl::test::counted_item(all, i); }) |
                 fl::shuffle({.capacity = 50, .min_fill = 50});
  CHECK(collect(p.infinite(), 70).size() == 70);
  CHECK(all.live() == 0);
  CHECK(collect(p.finite()).size() == 100);
  CHECK(all.live() == 0);
}

TEST_CASE(
    "shuffle of an empty source yields nothing, and items that never reach min_fill are emitted at the end") {
  CHECK(collect(numbers_on(2, 0, {.capacity = 5, .min_fill = 5}).finite({.epochs = 2})).empty());
  CHECK(sorted(collect(numbers_on(2, 3, {.capacity = 5, .min_fill = 5}).finite())) == count_to(3));
}
