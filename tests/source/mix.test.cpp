// SPDX-License-Identifier: MIT
#include <feedline/source/mix.hpp>

#include <feedline/source/concat.hpp>
#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/lines.hpp>
#include <feedline/source/push_source.hpp>
#include <feedline/source/range.hpp>
#include <feedline/source/with_replacement.hpp>
#include <feedline/source/zip.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/filter.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>
#include <feedline/stage/shuffle.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "support/catch.hpp"
#include "support/leave_and_resume.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;
using fl::weighted;
using fl::when_one_ends;

namespace {

using ints = std::vector<int>;

struct indexed_item {
  std::uint64_t index;
  int value;

  friend bool operator==(const indexed_item&, const indexed_item&) = default;
};

constexpr int far = 100'000;

constexpr auto with_index = [](int n, fl::context& c) { return indexed_item{c.index, n}; };

/// far, far + 1, …
ints from_far(int count) {
  ints values;
  for (int i = 0; i < count; ++i) values.push_back(far + i);
  return values;
}

/// The first source counts from 0, the second one from `far`.
auto two(int first, int second, when_one_ends end, double weight = 1) {
  return fl::mix(weighted(fl::from(count_to(first)), weight), weighted(fl::from(from_far(second)), 1),
                 fl::mix_options{end}) |
         fl::map(with_index);
}

ints values_of(const std::vector<indexed_item>& items) {
  ints values;
  for (const indexed_item& item : items) values.push_back(item.value);
  return values;
}

/// The items of one source, in order.
ints values_of(const std::vector<indexed_item>& items, bool second) {
  ints values;
  for (const indexed_item& item : items)
    if ((item.value >= far) == second) values.push_back(item.value);
  return values;
}

/// How many of the first items are from the first source.
std::size_t firsts_of(const std::vector<indexed_item>& items, std::size_t count) {
  return static_cast<std::size_t>(std::count_if(items.begin(),
                                                items.begin() + static_cast<std::ptrdiff_t>(count),
                                                [](const indexed_item& item) { return item.value < far; }));
}

} // namespace

TEST_CASE("mix rejects invalid weights") {
  const auto source = fl::from(ints{1});
  for (const double bad :
       {0.0, -1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    CHECK(throws_saying<std::invalid_argument>("feedline::mix: a weight", [&] { weighted(source, bad); }));
}

TEST_CASE("mix yields all samples of its sources, each source's in order, and continues when one ends") {
  const auto items = collect(two(100, 20, when_one_ends::continue_with_others).finite({.seed = 1}));
  CHECK(values_of(items, false) == count_to(100));
  CHECK(values_of(items, true) == from_far(20));
  CHECK(firsts_of(items, 20) > 2);
  CHECK(firsts_of(items, 20) < 18);
  for (const indexed_item& item : items)
    CHECK(item.index == (item.value < far
                             ? static_cast<std::uint64_t>(item.value)
                             : std::uint64_t{1} << 56 | static_cast<unsigned>(item.value - far)));
}

TEST_CASE("mix chooses by weight, by seed and epoch") {
  const auto p = two(5000, 5000, when_one_ends::stop, 3);
  const auto items = collect(p.finite({.seed = 1}), 4000);
  const auto share = static_cast<double>(firsts_of(items, 4000)) / 4000;
  CHECK(share > 0.72);
  CHECK(share < 0.78);
  CHECK(collect(p.finite({.seed = 1}), 4000) == items);
  CHECK(collect(p.finite({.seed = 2}), 4000) != items);
  const auto again = collect(two(50, 50, when_one_ends::continue_with_others).infinite({.seed = 1}), 200);
  CHECK(std::vector(again.begin(), again.begin() + 100) != std::vector(again.begin() + 100, again.end()));
}

TEST_CASE("the weights of the remaining sources keep their ratio") {
  const auto p = fl::mix(weighted(fl::from(ints()), 100), weighted(fl::from(count_to(5000)), 0.2),
                         weighted(fl::from(from_far(5000)), 0.1)) |
                 fl::map(with_index);
  const auto items = collect(p.finite({.seed = 1}), 1000);
  CHECK(firsts_of(items, 1000) > 600);
  CHECK(firsts_of(items, 1000) < 733);
}

TEST_CASE("with stop the epoch ends with the first source that ends") {
  const auto p = two(100, 10, when_one_ends::stop);
  const auto items = collect(p.finite({.seed = 1}));
  CHECK(values_of(items, true) == from_far(10));
  CHECK(values_of(items, false).size() < 60);
  CHECK(values_of(items, false) == count_to(static_cast<int>(items.size()) - 10));
  CHECK(values_of(collect(two(100, 0, when_one_ends::stop).finite())).size() < 20);
}

TEST_CASE("with repeat, short sources start again until each has ended once") {
  const auto items = collect(two(300, 7, when_one_ends::repeat).finite({.seed = 1}));
  CHECK(values_of(items, false) == count_to(300));
  const ints seconds = values_of(items, true);
  CHECK(seconds.size() > 200); // by weight, although the source is short
  CHECK(seconds.size() < 400);
  for (std::size_t i = 0; i < seconds.size(); ++i) CHECK(seconds[i] == far + static_cast<int>(i % 7));
  std::set<std::uint64_t> indices;
  for (const indexed_item& item : items) indices.insert(item.index);
  CHECK(indices.size() == 307);
}

TEST_CASE("a repeated source with one sample is chosen by its weight") {
  const auto items = collect(two(3000, 1, when_one_ends::repeat, 2).finite({.seed = 1}));
  CHECK(values_of(items, true).size() > 1300);
  CHECK(values_of(items, true).size() < 1700);
}

TEST_CASE(
    "each pass over a shuffled source has a different order, and its samples different random numbers") {
  const auto p = fl::mix(weighted(fl::from(count_to(20)) | fl::global_shuffle(), 1),
                         weighted(fl::from(from_far(200)) | fl::global_shuffle(), 1),
                         fl::mix_options{when_one_ends::repeat}) |
                 fl::map([](int n, fl::context& c) {
                   return indexed_item{c.random(), n};
                 });
  const auto items = collect(p.finite({.seed = 1}));
  const ints firsts = values_of(items, false);
  REQUIRE(firsts.size() > 60);
  std::set<ints> orders;
  for (std::size_t i = 0; i < 60; i += 20) {
    ints order(firsts.begin() + static_cast<std::ptrdiff_t>(i),
               firsts.begin() + static_cast<std::ptrdiff_t>(i + 20));
    orders.insert(order);
    std::sort(order.begin(), order.end());
    CHECK(order == count_to(20));
  }
  CHECK(orders.size() == 3);
  std::set<std::uint64_t> random;
  for (const indexed_item& item : items) random.insert(item.index);
  CHECK(random.size() == items.size());
}

TEST_CASE("repeat doesn't wait for a source that is always empty, nor for one that can't start") {
  CHECK(values_of(collect(two(5, 0, when_one_ends::repeat).finite({.epochs = 2}))).size() == 10);
  CHECK(collect(two(0, 0, when_one_ends::repeat).finite()).empty());

  struct unstartable {
    void start_epoch(const fl::epoch&) { throw unlucky(0); }

    std::optional<int> next() { return 1; }
  };

  const auto p = fl::mix(weighted(fl::from(count_to(50)), 1), weighted(unstartable(), 1),
                         fl::mix_options{when_one_ends::repeat}) |
                 fl::map(with_index);
  const auto result = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(values_of(result.items) == count_to(50));
  CHECK(result.skipped.size() == 1);
}

TEST_CASE(
    "errors of mix's sources keep their positions, and origins are those of the sources, in every pass") {
  for (const when_one_ends end : {when_one_ends::continue_with_others, when_one_ends::repeat}) {
    const auto p = fl::mix(weighted(numbers(40, {3}), 1), weighted(numbers(5), 1), fl::mix_options{end}) |
                   fl::map([](int n) {
                     if (n == 4) throw unlucky(n);
                     return n;
                   });
    const auto result = run_to_end(p.finite({.on_error = fl::on_error::skip}));
    REQUIRE(result.skipped.size() >= 3);
    for (const fl::failure& f : result.skipped)
      CHECK((f.stage == "mix" ? f.message == "unlucky 3" : f.origin == "number 4"));
  }
}

TEST_CASE("an index that doesn't fit next to the source is a failure of that sample") {
  struct far_away {
    std::optional<int> next() { return at < 3 ? std::optional(at++) : std::nullopt; }

    std::uint64_t index() const { return (std::uint64_t{1} << 57) + static_cast<unsigned>(at); }

    int at = 0;
  };

  const auto p = fl::mix(weighted(far_away(), 1), weighted(fl::from(count_to(4)), 1)) | fl::map(with_index);
  const auto result = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(result.items.size() == 4);
  CHECK(result.skipped.size() == 3);
}

TEST_CASE("in an infinite run the weights hold throughout, in a finite one each sample comes once") {
  const auto p = fl::mix(weighted(fl::from(count_to(20)), 2), weighted(fl::from(from_far(2000)), 1)) |
                 fl::map(with_index);
  const auto training = collect(p.infinite({.seed = 1}), 3000);
  CHECK(firsts_of(training, 3000) > 1900);
  CHECK(firsts_of(training, 3000) < 2100);
  const auto evaluation = collect(p.finite({.seed = 1}));
  CHECK(evaluation.size() == 2020);
  const auto continued = fl::mix(weighted(fl::from(count_to(20)), 2), weighted(fl::from(from_far(2000)), 1),
                                 fl::mix_options{when_one_ends::continue_with_others}) |
                         fl::map(with_index);
  CHECK(firsts_of(collect(continued.infinite({.seed = 1}), 2020), 2020) == 20);
}

TEST_CASE("a buffer after a mix of sources that can't seek is resumed, in whatever order their indices are") {
  const auto pairs = fl::zip(fl::from(count_to(40)) | fl::global_shuffle(), fl::from(count_to(40))) |
                     fl::map([](const std::pair<int, int>& both) { return both.first; });
  const auto p = fl::mix(weighted(pairs, 1), weighted(fl::from(count_to(20)), 1)) |
                 fl::shuffle({.capacity = 20}) | fl::prefetch(1);
  const auto expected = collect(p.finite({.seed = 3}));
  for (const std::size_t at : {5u, 20u, 45u}) {
    auto left = p.finite({.seed = 3});
    for (std::size_t i = 0; i < at; ++i) left.next();
    CHECK(collect(p.finite({.resume = left.checkpoint()})) ==
          std::vector(expected.begin() + static_cast<std::ptrdiff_t>(at), expected.end()));
  }
}

TEST_CASE("an infinite run ends with live sources of a mix") {
  fl::push_source<int> arriving;
  for (int i = 0; i < 5; ++i) arriving.push(i);
  arriving.close();
  const auto p = fl::mix(weighted(arriving, 1)) | fl::batch(1);
  int items = 0;
  for (const auto& batch : p.infinite()) items += static_cast<int>(batch.size());
  CHECK(items == 5);
}

TEST_CASE("a mix of draws with replacement: each draw has random numbers of its own, in every pass") {
  const auto draws = fl::from(count_to(4)) | fl::with_replacement({.samples = 30});
  const auto random = [](int n, fl::context& c) { return indexed_item{c.random(), n}; };
  const auto p = fl::mix(weighted(draws, 1), weighted(fl::from(from_far(100)), 1),
                         fl::mix_options{when_one_ends::repeat}) |
                 fl::map(random) | fl::shuffle({.capacity = 7}) | fl::prefetch(1);
  const auto items = collect(p.finite({.seed = 3}));
  REQUIRE(values_of(items, false).size() > 60);
  std::set<std::uint64_t> numbers;
  for (const indexed_item& item : items) numbers.insert(item.index);
  CHECK(numbers.size() == items.size());
  auto left = p.finite({.seed = 3});
  for (int i = 0; i < 120; ++i) REQUIRE(left.next());
  CHECK(collect(p.finite({.resume = left.checkpoint()})) == std::vector(items.begin() + 120, items.end()));
}

TEST_CASE("a run over a mix can't be resumed with different weights or a different when_one_ends") {
  const auto run = [](double weight, when_one_ends end, const std::optional<fl::checkpoint>& resume) {
    return two(5, 5, end, weight).finite({.resume = resume});
  };
  const auto checkpoint = run(1, when_one_ends::stop, {}).checkpoint();
  run(1, when_one_ends::stop, checkpoint);
  CHECK_THROWS_AS(run(2, when_one_ends::stop, checkpoint), std::invalid_argument);
  CHECK_THROWS_AS(run(1, when_one_ends::continue_with_others, checkpoint), std::invalid_argument);
}

TEST_CASE("Resumed: a mix of sources with and without a state") {
  const temporary_folder folder;
  for (int file = 0; file < 3; ++file) {
    std::string text;
    for (int i = 0; i < 5 * file; ++i) text += std::to_string(100 * file + i) + "\n";
    folder.write(std::to_string(file), text);
  }
  std::vector<std::string> elements;
  for (int i = 0; i < 40; ++i) elements.push_back(std::to_string(10'000 + i));

  struct stateless_numbers : numbers { // as text
    using numbers::numbers;

    std::optional<std::string> next() {
      const auto number = numbers::next();
      return number ? std::optional(std::to_string(*number)) : std::nullopt;
    }
  };

  leave_and_resume("mix", 60, [&](draw& d, const circumstances& c) {
    const auto end = static_cast<when_one_ends>(d(0, 2));
    const int size = static_cast<int>(d(0, 30));
    return fl::mix(weighted(fl::from(elements) | fl::global_shuffle(), 1 + static_cast<double>(d(0, 3))),
                   weighted(fl::lines({folder / "?"}), 1), weighted(stateless_numbers(size, {5, 20}), 0.5),
                   fl::mix_options{end}) |
           fl::shuffle({.capacity = d(1, 30)}) |
           fl::map([](std::string s,
                      fl::context& context) { return s + "." + std::to_string(context.random.below(100)); },
                   fl::workers{c.workers}) |
           fl::batch(d(1, 6));
  });
}

TEST_CASE("weights whose sum is infinite are rejected") {
  const auto s = fl::from(count_to(3));
  CHECK_THROWS_AS(fl::mix(fl::weighted(s, 1e308), fl::weighted(s, 1e308)), std::invalid_argument);
}

namespace {

struct scaled {
  int operator()(int n) const {
    if (n == bad) throw std::runtime_error("broken " + std::to_string(n));
    return 100 * n;
  }

  int bad = -1;
};

struct jittered {
  double operator()(int n, fl::context& c) const { return n + c.random.uniform() / 2; }
};

template <class Start>
void check_places(const Start& start, int items) {
  const watchdog guard("a run that is resumed at every position");
  auto whole = start(std::optional<fl::checkpoint>());
  using item = typename decltype(whole)::value_type;
  std::vector<item> expected;
  std::vector<fl::checkpoint> places;
  for (int i = 0; i < items; ++i) {
    places.push_back(whole.checkpoint());
    auto next = whole.next();
    if (!next) break;
    expected.push_back(*next);
  }
  for (std::size_t at = 0; at < expected.size(); ++at) {
    auto resumed = start(std::optional(fl::checkpoint::from_bytes(places[at].to_bytes())));
    for (std::size_t i = at; i < expected.size(); ++i) REQUIRE(*resumed.next() == expected[i]);
  }
}

} // namespace

TEST_CASE("Sources of a mix can have stages without a state, and items of several types") {
  const auto even = fl::from(count_to(20)) | fl::filter([](int n) { return n % 2 == 0; }) | fl::map(scaled());
  const auto plain = fl::from(count_to(7));
  const auto mixed = fl::mix(fl::weighted(even, 0.6), fl::weighted(plain, 0.4)) | fl::prefetch(3);
  std::multiset<int> all;
  for (const int n : collect(mixed.finite())) all.insert(n);
  std::multiset<int> expected;
  for (int n = 0; n < 20; n += 2) expected.insert(100 * n);
  for (int n = 0; n < 7; ++n) expected.insert(n);
  CHECK(all == expected);

  const auto random = plain | fl::map(jittered());
  const auto several = fl::mix(fl::weighted(even, 1), fl::weighted(random, 1), fl::weighted(plain, 1));
  using item = typename decltype(several)::item;
  static_assert(std::is_same_v<item, std::variant<int, double>>);
  std::size_t doubles = 0;
  for (const item& i : collect((several | fl::prefetch(3)).finite())) doubles += i.index() == 1;
  CHECK(doubles == 7);
  static_assert(std::is_same_v<decltype(fl::concat(even, random))::item, std::variant<int, double>>);
  check_places(
      [&](const auto& resume) { return (several | fl::prefetch(3)).finite({.epochs = 2, .resume = resume}); },
      100);
  check_places([&](const auto& resume) { return (several | fl::prefetch(3)).infinite({.resume = resume}); },
               100);
  const auto buffered = fl::concat(even, random) | fl::map([](const item& i) { return i; }, fl::workers{2}) |
                        fl::shuffle({.capacity = 5}) | fl::prefetch(2);
  check_places([&](const auto& resume) { return buffered.infinite({.resume = resume}); }, 100);
  const auto pairs = fl::zip(even, random) | fl::prefetch(2);
  check_places([&](const auto& resume) { return pairs.finite({.epochs = 2, .resume = resume}); }, 100);
  CHECK(collect(pairs.finite()).size() == 7);
}

TEST_CASE("A failing stage inside a mix is named, and the other sources continue") {
  const auto broken = fl::from(count_to(5)) | fl::map(scaled{3}, fl::name{"scale"});
  const auto mixed = fl::concat(broken, fl::from(count_to(2))) | fl::prefetch(3);
  const auto failed = run_to_end(mixed.finite());
  CHECK(failed.items == std::vector{0, 100, 200});
  auto skipping = mixed.finite({.on_error = fl::on_error::skip});
  std::vector<int> rest;
  while (const auto n = skipping.next()) rest.push_back(*n);
  CHECK(rest == std::vector{0, 100, 200, 400, 0, 1});
  REQUIRE(skipping.failures().size() == 1);
  CHECK(skipping.failures()[0].stage == "map `scale` in concat");
  CHECK(skipping.failures()[0].message == "broken 3");
}

TEST_CASE("global_shuffle can follow stages without a state") {
  const auto before = fl::from(count_to(50)) | fl::global_shuffle() | fl::map(scaled()) | fl::prefetch(3);
  const auto behind = fl::from(count_to(50)) | fl::map(scaled()) | fl::global_shuffle() | fl::prefetch(3);
  CHECK(collect(before.finite({.seed = 5})) == collect(behind.finite({.seed = 5})));
}

TEST_CASE("The samples of a mix of sources with stages are divided among ranks") {
  const auto even = fl::from(count_to(30)) | fl::filter([](int n) { return n % 2 == 0; });
  const auto mixed = fl::mix(fl::weighted(even, 1), fl::weighted(fl::from(count_to(9)), 1)) | fl::prefetch(3);
  std::multiset<int> all;
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    for (const int n : collect(mixed.finite({.rank = {rank, 3, fl::remainder::keep}}))) all.insert(n);
  CHECK(all.size() == 15 + 9);
  CHECK(all.count(28) == 1);
  CHECK(all.count(8) == 2);
}
