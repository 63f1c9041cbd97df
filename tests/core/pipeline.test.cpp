// SPDX-License-Identifier: MIT
#include <feedline/core/pipeline.hpp>

#include <atomic>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/cache.hpp>
#include <feedline/feedline.hpp>
#include <feedline/live.hpp>
#include <feedline/window.hpp>

#include "support/catch.hpp"
#include "support/lifetimes.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

struct half {
  double operator()(int n) const { return n / 2.0; }
};

struct as_text {
  std::string operator()(double x) const { return std::to_string(x); }
};

const auto plus_one = [](int n) { return n + 1; };

/// Names that the library uses, too.
namespace with_own_functions {

struct twice {
  int operator()(int n) const { return 2 * n; }
};

template <class T>
void share(T&&);
template <class... T>
void serial(T...);
template <class... T>
void append(const T&...);

} // namespace with_own_functions

template <class Pipeline>
using item_of = typename Pipeline::item;

/// A stage that knows nothing of the library.
template <class In>
struct own_stage {
  using output = In;

  void operator()(In item, auto& emit) { emit(std::move(item)); }
};

template <class Left, class Right>
concept composes = requires(Left left, Right right) { left | right; };

} // namespace

TEST_CASE("The item type is known at every point of a pipeline") {
  const auto source = fl::from(numbers(3));
  STATIC_REQUIRE(std::same_as<item_of<decltype(source)>, int>);
  STATIC_REQUIRE_FALSE(std::ranges::range<decltype(source)>);
  const auto halves = source | fl::map(half{});
  STATIC_REQUIRE(std::same_as<item_of<decltype(halves)>, double>);
  const auto texts = halves | fl::prefetch(2) | fl::map(as_text{}, fl::workers{2});
  STATIC_REQUIRE(std::same_as<item_of<decltype(texts)>, std::string>);
  const auto batches = texts | fl::shuffle({.capacity = 4}) | fl::batch(2);
  STATIC_REQUIRE(std::same_as<item_of<decltype(batches)>, fl::batch_of<std::string>>);
  STATIC_REQUIRE(std::same_as<fl::loader_of<decltype(batches)>::value_type, fl::batch_of<std::string>>);
  STATIC_REQUIRE(std::same_as<fl::loader_of<decltype(batches)>, decltype(batches.infinite())>);
}

TEST_CASE("The library's operator composes only the library's parts") {
  STATIC_REQUIRE_FALSE(composes<std::vector<int>, std::string>);
  STATIC_REQUIRE_FALSE(composes<numbers, numbers>);
}

TEST_CASE("Stages without a source make a row that can be used as one part") {
  const auto augment = fl::map(plus_one) | fl::filter([](int n) { return n % 2 == 0; });
  CHECK(collect((fl::from(numbers(6)) | augment).finite()) == std::vector<int>{2, 4, 6});
  CHECK(collect((fl::from(numbers(6)) | augment | augment | fl::map(plus_one)).finite()).empty());
  const auto tail = augment | fl::prefetch(2) | fl::map(plus_one);
  CHECK(collect((fl::from(numbers(4)) | fl::map(plus_one) | tail).finite()) == std::vector<int>{3, 5});
}

TEST_CASE("A row with workers can be composed in advance") {
  const auto tail = fl::map(plus_one, fl::workers{3}) | fl::batch(2);
  const auto batches = collect((fl::from(numbers(3)) | tail).finite());
  REQUIRE(batches.size() == 2);
  CHECK(batches[0].values()[1] == 2);
  CHECK(batches[1].size() == 1);
}

TEST_CASE("A part that changes a source may be in a row without one") {
  const auto source = fl::from(count_to(30));
  const auto expected =
      collect((source | fl::global_shuffle() | fl::map(plus_one) | fl::prefetch(2)).finite());
  const auto row = fl::global_shuffle() | fl::map(plus_one);
  CHECK(collect((source | row | fl::prefetch(2)).finite()) == expected);
  CHECK(collect((source | (row | fl::prefetch(2))).finite()) == expected);
  CHECK(collect((source | (fl::map(plus_one) | fl::global_shuffle()) | fl::prefetch(2)).finite()) ==
        expected);
}

TEST_CASE("A source without stages runs as it is") {
  const auto p = fl::from(numbers(5));
  CHECK(collect(p.finite({.epochs = 2})).size() == 10);
  CHECK(collect(fl::from(count_to(5)).infinite(), 8) == std::vector{0, 1, 2, 3, 4, 0, 1, 2});
  auto left = fl::from(count_to(5)).finite();
  left.next();
  CHECK(collect(fl::from(count_to(5)).finite({.resume = left.checkpoint()})) == std::vector{1, 2, 3, 4});
  const auto shuffled = collect((fl::from(count_to(50)) | fl::global_shuffle()).finite());
  CHECK(shuffled.size() == 50);
  CHECK(shuffled != count_to(50));
  const auto failing = run_to_end(fl::from(numbers(5, {3})).finite({.on_error = fl::on_error::skip}));
  CHECK(failing.items == std::vector{0, 1, 2, 4});
  CHECK(failing.skipped.at(0).samples_before == 3);
  CHECK(fl::from(count_to(5)).size() == 5);
  CHECK(fl::from(count_to(5)).memory().bytes());
}

TEST_CASE("A pipeline with only a queue yields the samples as they are") {
  CHECK(collect((fl::from(numbers(5)) | fl::prefetch(2)).finite()) == count_to(5));
  CHECK(collect((fl::from(numbers(5)) | fl::prefetch(2) | fl::prefetch(3)).finite()) == count_to(5));
}

TEST_CASE("A pipeline starts nothing: its functions are called once there is a loader") {
  const auto calls = std::make_shared<std::atomic<int>>(0);
  const auto p = fl::from(numbers(3)) | fl::tap([calls](int) { ++*calls; }) | fl::batch(3);
  const auto copy = p;
  CHECK(*calls == 0);
  CHECK(collect(copy.finite()).size() == 1);
  CHECK(*calls == 3);
  CHECK(collect(p.finite()).size() == 1);
  CHECK(*calls == 6);
}

TEST_CASE("A loader outlives its pipeline") {
  auto loader = [] {
    const auto p = fl::from(std::vector<std::string>{"a", "b"}) |
                   fl::map([suffix = std::string("!")](std::string s) { return s + suffix; }, fl::workers{2});
    return p.finite();
  }();
  CHECK(collect(std::move(loader)) == std::vector<std::string>{"a!", "b!"});
}

TEST_CASE("Two loaders of one pipeline run concurrently and independently") {
  const watchdog guard("two loaders");
  const auto p = fl::from(numbers(500)) | fl::map(plus_one, fl::workers{2}) | fl::shuffle({.capacity = 100}) |
                 fl::prefetch(8);
  auto a = p.finite({.seed = 1}), b = p.finite({.seed = 1}), c = p.finite({.seed = 2}),
       d = p.infinite({.seed = 1});
  std::vector<int> from_a, from_b, from_c;
  while (auto item = a.next()) {
    from_a.push_back(*item);
    from_b.push_back(b.next().value());
    from_c.push_back(c.next().value());
    CHECK(d.next());
  }
  CHECK_FALSE(b.next());
  CHECK_FALSE(c.next());
  CHECK(from_a == from_b);
  CHECK_FALSE(from_a == from_c);
}

TEST_CASE("Move-only items pass through every kind of segment, and none is lost") {
  const watchdog guard("move-only items");
  lifetimes all;
  const auto p = fl::from(numbers(200)) | fl::map([&](int n) { return counted_item(all, n); }) |
                 fl::prefetch(3) |
                 fl::filter([](const counted_item& c) { return c.value() % 2 == 0; }, fl::workers{4}) |
                 fl::map([](counted_item c) { return c; }, fl::workers{2}) | fl::shuffle({.capacity = 7}) |
                 fl::batch(6, fl::as_list);
  {
    std::size_t count = 0;
    for (const auto& b : p.finite()) {
      count += b.size();
      for (const counted_item& c : b.values()) CHECK(c.value() % 2 == 0);
    }
    CHECK(count == 100);
  }
  CHECK(all.live() == 0);
  for (int taken = 0; taken < 10; ++taken) {
    auto loader = p.infinite();
    for (int i = 0; i < taken; ++i) CHECK(loader.next());
  }
  CHECK(all.live() == 0); // also those in queues and buffers when the loader was destroyed
}

TEST_CASE("Move-only functions are shared by the pipeline's copies") {
  const auto p = fl::from(numbers(3)) |
                 fl::map([offset = std::make_unique<int>(10)](int n) { return n + *offset; }, fl::workers{2});
  const auto copy = p;
  CHECK(collect(p.finite()) == std::vector<int>{10, 11, 12});
  CHECK(collect(copy.finite()) == std::vector<int>{10, 11, 12});
}

TEST_CASE("Function pointers and pointers to members are functions") {
  struct example {
    int number;

    int twice() const { return 2 * number; }
  };

  int (*negate)(int) = [](int n) { return -n; };
  const auto examples = fl::from(std::vector<example>{{1}, {2}});
  CHECK(collect((examples | fl::map(&example::number) | fl::map(negate)).finite()) ==
        std::vector<int>{-1, -2});
  CHECK(collect((examples | fl::map(&example::twice, fl::workers{2})).finite()) == std::vector<int>{2, 4});
}

TEST_CASE("The number of items in an epoch is known without running, if sources and stages know it") {
  const auto numbers = fl::from(count_to(103));
  CHECK((numbers | fl::prefetch(1)).size() == 103u);
  CHECK((numbers | fl::batch(10)).size() == 11u);
  CHECK((numbers | fl::batch(10, {.drop_last = true})).size() == 10u);
  CHECK((numbers | fl::batch(10)).size(fl::infinite_options()) == 10u);
  const auto many_stages = numbers | fl::map([](int n) { return n; }, fl::workers{2}) |
                           fl::shuffle({.capacity = 7}) | fl::skip(3) | fl::take(55) | fl::enumerate() |
                           fl::batch(10, fl::as_list);
  CHECK(many_stages.size() == 6u);
  const auto into = fl::batch_into<int>(10, [](int n, fl::batch_slot<int>& slot) { slot.value() = n; });
  CHECK((numbers | into).size() == 11u);
  CHECK((numbers | fl::global_shuffle() | fl::batch(10)).size() == 11u);
  CHECK((numbers | fl::with_replacement({.samples = 5}) | fl::prefetch(1)).size() == 5u);
  CHECK((fl::from(std::vector<int>()) | fl::batch(10)).size() == 0u);
  const auto filter = fl::filter([](int n) { return n > 3; });
  CHECK(!(numbers | filter | fl::batch(10)).size());
  const auto flat_map = fl::flat_map([](int n) { return std::vector<int>(3, n); });
  CHECK(!(numbers | flat_map | fl::batch(10)).size());
  const auto generate = fl::generate([] { return std::optional(1); });
  CHECK(!(generate | fl::batch(10)).size());
}

TEST_CASE("A stage of a user's own follows every source of the library") {
  static_assert(composes<fl::tar_samples, own_stage<fl::tar_sample>>);
  using pool = decltype(fl::sliding_window_pool(fl::files(".")));
  static_assert(composes<pool, own_stage<fl::source_item_t<pool>>>);
  static_assert(composes<decltype(fl::broadcast(fl::from(count_to(1)).finite(), 1)[0]), own_stage<int>>);
  static_assert(composes<decltype(fl::join({}, fl::from(count_to(1)).finite())), own_stage<int>>);
  fl::push_source<int> source;
  for (const int n : count_to(3)) source.push(n);
  source.close();
  CHECK(collect((source | own_stage<int>{} | fl::map(plus_one)).infinite()) == std::vector{1, 2, 3});
}

TEST_CASE("functions in the namespace of a user's function don't replace the library's") {
  const auto p =
      fl::from(count_to(3)) | fl::map(with_own_functions::twice()) | fl::cache({.memory_bytes = 1 << 20});
  CHECK(collect(p.finite()) == std::vector{0, 2, 4});
}

TEST_CASE("size() is the number of items that a run of each rank yields") {
  for (const fl::remainder rest : {fl::remainder::drop, fl::remainder::wrap, fl::remainder::keep})
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      const fl::finite_options options{.rank = {rank, 3, rest}};
      const auto check = [&](const auto& pipeline) {
        std::uint64_t items = 0;
        auto loader = pipeline.finite(options);
        while (loader.next()) ++items;
        CHECK(pipeline.size(options) == items);
      };
      check(fl::from(count_to(103)) | fl::batch(10));
      check(fl::from(count_to(103)) | fl::global_shuffle() | fl::batch(10));
    }
}
