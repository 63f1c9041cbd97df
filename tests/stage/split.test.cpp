// SPDX-License-Identifier: MIT
#include <feedline/stage/split.hpp>

#include <feedline/cache/cache.hpp>
#include <feedline/core/any_loader.hpp>
#include <feedline/source/concat.hpp>
#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/filter.hpp>
#include <feedline/stage/flat_map.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/shuffle.hpp>
#include <feedline/testing/check_stage.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ranges>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/leave_and_resume.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/refusing.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using fl::test::collect;
using fl::test::count_to;
using fl::test::refusing;
using fl::test::run_to_end;
using fl::test::throws_saying;
using fl::test::unlucky;
using fl::test::worker_counts;

namespace {

// Types for functions, so that few pipelines are compiled.
using chooses = std::function<bool(int)>;
using makes = std::function<int(int, fl::context&)>;
using makes_several = std::function<std::vector<int>(int)>;
using numbers = std::vector<int>;
using any_numbers = fl::any_pipeline<int>;

const chooses is_even = [](int n) { return n % 2 == 0; };
const chooses always = [](int) { return true; };
const chooses never = [](int) { return false; };
const chooses no_third = [](int n) { return n % 3 != 0; };
const makes tenfold = [](int n, fl::context&) { return 10 * n; };
const makes negative = [](int n, fl::context&) { return -n; };
const makes noisy = [](int n, fl::context& c) { return 1000 * n + static_cast<int>(c.random.below(1000)); };
const makes_several some = [](int n) { return numbers(static_cast<std::size_t>(n % 4), n); };

/// Emits one item for each.
auto maps(const chooses& choose, const makes& if_true, const makes& if_false) {
  return fl::split(choose, fl::map(if_true, fl::name{"a"}), fl::map(if_false, fl::name{"b"}),
                   fl::name{"maps"});
}

/// Emits at most one item for each.
auto filters(const chooses& choose, const makes& make, const chooses& keep) {
  return fl::split(choose, fl::map(make, fl::name{"a"}) | fl::filter(keep), fl::filter(keep),
                   fl::name{"filters"});
}

/// Emits any number of items for each.
auto parts(const chooses& choose, const makes_several& several, const makes& make) {
  return fl::split(choose, fl::flat_map(several) | fl::map(make, fl::name{"a"}), fl::map(make, fl::name{"b"}),
                   fl::name{"parts"});
}

template <class Stage>
any_numbers on_workers(int count, std::size_t workers, const Stage& stage) {
  return fl::from(count_to(count)) | fl::parallel(fl::workers{workers}, stage);
}

/// A user's stage, which emits two parts and may say that it needs no more items.
struct twice {
  using output = int;
  static constexpr fl::stage_traits traits{.kind = "twice", .stateless = true};

  void operator()(int n, auto& emit) const {
    if (emit(n)) emit(-n);
    if (has_enough) emit.enough();
  }

  bool has_enough = false;
};

using move_only = decltype([owned = std::unique_ptr<int>()](int) { return owned == nullptr; });
using converting = decltype(maps(is_even, tenfold, negative));
using filtering = decltype(filters(is_even, tenfold, always));
using dividing = decltype(parts(is_even, some, negative));

static_assert(fl::stage_for<decltype(fl::split(std::declval<move_only>(), fl::map(tenfold))), int>);
static_assert(std::is_same_v<fl::stage_output_t<dividing, int>, int>);
static_assert(!fl::stage_for<converting, std::string>);
static_assert(!fl::stage_for<decltype(fl::split([](int) { return std::string(); }, fl::map(tenfold))), int>);
static_assert(converting::traits.one_to_one && converting::traits.position_from_last_sample);
static_assert(!filtering::traits.one_to_one && filtering::traits.position_from_last_sample);
static_assert(!dividing::traits.one_to_one && !dividing::traits.position_from_last_sample);

/// The items of a run with their identities, the failures and the digest, as text.
template <class Loader>
std::string all_of(Loader loader) {
  std::string text;
  do text += fl::test::next_as_text(loader) + "\n";
  while (!text.ends_with("end\n"));
  return text + std::to_string(loader.digest());
}

/// What a function makes of 0, 1, … count - 1.
numbers by_hand(int count, const makes_several& of_one) {
  numbers all;
  for (const int n : count_to(count))
    for (const int made : of_one(n)) all.push_back(made);
  return all;
}

/// Passes on its items, and keeps a table of that size.
struct with_table {
  using output = int;
  static constexpr fl::stage_traits traits{.stateless = true, .one_to_one = true};

  void operator()(int n, auto& emit) const { emit(n); }

  std::size_t bytes_held() const { return bytes; }

  std::size_t bytes;
};

} // namespace

TEST_CASE("split passes each item through the branch that its predicate chooses, and keeps the order") {
  for (const std::size_t workers : worker_counts) {
    CHECK(collect(on_workers(300, workers, maps(is_even, tenfold, negative)).finite()) ==
          by_hand(300, [](int n) { return numbers{n % 2 == 0 ? 10 * n : -n}; }));
    CHECK(collect(on_workers(300, workers, filters(is_even, negative, no_third)).finite()) ==
          by_hand(300, [](int n) { return n % 3 != 0 ? numbers{n % 2 == 0 ? -n : n} : numbers(); }));
    CHECK(collect(on_workers(300, workers, parts(is_even, some, negative)).finite()) ==
          by_hand(300, [](int n) { return numbers(n % 2 == 0 ? static_cast<std::size_t>(n % 4) : 1, -n); }));
  }
}

TEST_CASE("without a second branch the other items pass unchanged, and a branch may stay empty for ever") {
  const auto of = [](int count, const chooses& choose) {
    return any_numbers(fl::from(count_to(count)) | fl::split(choose, fl::map(tenfold), fl::workers{2}));
  };
  CHECK(collect(of(5, is_even).finite()) == numbers{0, 1, 20, 3, 40});
  CHECK(collect(of(3, never).finite({.epochs = 2})) == numbers{0, 1, 2, 0, 1, 2});
  CHECK(collect(of(3, always).infinite(), 5) == numbers{0, 10, 20, 0, 10});
  CHECK(collect(of(0, always).finite({.epochs = 3})).empty());
}

TEST_CASE("a run in which no branch of a split lets an item through ends") {
  const any_numbers p =
      fl::from(count_to(9)) | filters(is_even, tenfold, never) | fl::shuffle({.capacity = 2});
  CHECK(collect(p.finite({.epochs = 2})).empty());
  CHECK(throws_saying<fl::pipeline_error>("split `filters` failed: it let no sample through",
                                          [&] { p.infinite().next(); }));
}

TEST_CASE("the parts of a sample have the identities that they would have without split") {
  const auto of = [](auto stages) {
    return all_of((fl::from(count_to(8)) | std::move(stages) | fl::batch(9)).finite());
  };
  CHECK(of(parts(always, some, negative)) == of(fl::flat_map(some) | fl::map(negative)));
  CHECK(of(fl::split(always, twice())) == of(twice()));
  // The other branch may need more.
  CHECK(of(fl::split(always, twice{.has_enough = true})) == of(twice()));
}

TEST_CASE("each stage in a split has its own random numbers, the same with any number of workers") {
  const auto of = [](const chooses& choose, std::size_t workers, std::uint64_t seed) {
    return collect(on_workers(40, workers, maps(choose, noisy, noisy)).finite({.seed = seed, .epochs = 2}));
  };
  const numbers expected = of(is_even, 1, 3);
  CHECK(of(is_even, 8, 3) == expected);
  CHECK(of(is_even, 1, 4) != expected);
  CHECK(expected[1] != expected[41]);
  CHECK(of(always, 1, 3) != of(never, 1, 3));
  const makes add_noise = [](int n, fl::context& c) {
    return 1000 * (n / 1000) + std::abs(n % 1000 - static_cast<int>(c.random.below(1000)));
  };
  const auto after_another = fl::split(always, fl::map(noisy) | fl::map(add_noise));
  CHECK(collect((fl::from(count_to(2)) | after_another).finite()) != numbers{0, 1000});
}

TEST_CASE("a failure inside a split names the stage, the split and the sample") {
  struct mistake {
    const char* stage;
    std::size_t items_before, other_items;
    std::uint64_t sample;
    std::function<any_numbers(std::size_t workers)> make;
  };

  const auto refuses = [](int bad) -> makes {
    return [bad](int n, fl::context&) { return refusing{{bad}}(n); };
  };
  const auto chooses_but = [](int bad) -> chooses {
    return [bad](int n) { return refusing{{bad}}(n) % 2 == 0; };
  };
  const auto of = [](const auto& stage) {
    return [=](std::size_t workers) { return on_workers(30, workers, stage); };
  };
  for (const mistake& m : {
           mistake{"map `a` in split `maps`", 12, 29, 12, of(maps(is_even, refuses(12), negative))},
           mistake{"map `b` in split `maps`", 13, 29, 13, of(maps(is_even, negative, refuses(13)))},
           mistake{"split `maps`", 12, 29, 12, of(maps(chooses_but(12), negative, negative))},
           mistake{"map `a` in split `filters`", 12, 29, 12, of(filters(is_even, refuses(12), always))},
           mistake{"filter in split `filters`", 8, 15, 15, of(filters(no_third, negative, chooses_but(15)))},
           mistake{"split `filters`", 12, 29, 12, of(filters(chooses_but(12), negative, always))},
           mistake{"map `b` in split `parts`", 16, 37, 12, of(parts(no_third, some, refuses(12)))},
           mistake{"split `parts`", 12, 29, 12, of(parts(chooses_but(12), some, negative))},
           mistake{"map `a` in split `maps` in split", 12, 29, 12,
                   of(fl::split(no_third, fl::map(negative), maps(is_even, refuses(12), negative)))},
           mistake{"map `b` in split `parts` in split `outer`", 16, 37, 12,
                   of(fl::split(always, parts(no_third, some, refuses(12)), fl::name{"outer"}))},
       })
    for (const std::size_t workers : worker_counts) {
      INFO(m.stage);
      const any_numbers p = m.make(workers);
      const auto failing = run_to_end(p.finite());
      CHECK(failing.items.size() == m.items_before);
      REQUIRE(failing.failed);
      CHECK(failing.failed->stage == m.stage);
      CHECK(failing.failed->index == m.sample);
      CHECK(failing.failed->message == "unlucky " + std::to_string(m.sample));
      auto loader = p.finite({.epochs = 2, .on_error = fl::on_error::skip});
      const auto skipping = run_to_end(loader);
      CHECK(skipping.items.size() == 2 * m.other_items);
      CHECK(skipping.skipped_indices() == std::vector<std::uint64_t>{m.sample, m.sample});
      CHECK(loader.metrics().total.stages.at(1).failures == 2);
    }
}

TEST_CASE("some parts of a sample may fail in a split, and the others are emitted") {
  const makes refuse_second = [](int n, fl::context& c) { return c.sub_index == 1 ? throw unlucky(n) : n; };
  const any_numbers p = on_workers(8, 2, parts(always, some, refuse_second));
  const auto failing = run_to_end(p.finite());
  CHECK(failing.items == numbers{1, 2});
  CHECK(failing.failed->sub_index == 1);
  const auto skipping = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(skipping.items == numbers{1, 2, 3, 3, 5, 6, 7, 7});
  CHECK(skipping.skipped_indices() == std::vector<std::uint64_t>{2, 3, 6, 7});
}

TEST_CASE("no two items that stages make of one sample have the same identity") {
  const auto make = fl::flat_map(makes_several([](int n) { return numbers{3 * n, 3 * n + 1, 3 * n + 2}; }));
  const chooses is_first = [](int n) { return n % 3 == 0; };
  const auto source = fl::from(count_to(4));
  const auto one_first = fl::split(is_first, make);
  const auto inner = fl::map(tenfold) | twice() | twice() | fl::split(is_first, make | one_first);
  const auto cached = fl::cache({.memory_bytes = 100'000});
  const auto workers = fl::map(tenfold, fl::workers{2});
  const auto check = [](const auto& pipeline) {
    std::set<fl::sample_id> ids;
    std::size_t items = 0;
    for (const auto& batch : (pipeline | fl::batch(5)).finite()) {
      ids.insert(batch.ids().begin(), batch.ids().end());
      items += batch.size();
    }
    CHECK(items > 12);
    CHECK(ids.size() == items);
  };
  check(source | make | one_first);
  check(source | make | fl::split(is_even, inner));
  check(source | make | twice());
  check(source | twice() | twice() | make);
  check(source | make | make | workers | one_first | twice());
  check(source | make | cached | twice() | one_first);
  check(source | twice() | workers | twice() | cached | twice());
}

TEST_CASE("a stage in a split that can't begin is named, and an outage ends the run") {
  const auto no_decoder = fl::map(fl::per_worker([]() -> makes { throw std::runtime_error("no decoder"); }));
  CHECK(throws_saying<fl::pipeline_error>("map in split `x` failed: no decoder", [&] {
    (fl::from(count_to(3)) | fl::split(is_even, no_decoder, fl::name{"x"})).finite().next();
  }));
  const makes unreachable = [](int n, fl::context&) {
    return n == 6 ? throw fl::outage_error("no answer") : n;
  };
  for (const any_numbers& p : {on_workers(9, 1, maps(is_even, unreachable, negative)),
                               on_workers(9, 1, parts(always, some, unreachable))}) {
    const auto result = run_to_end(p.finite({.on_error = fl::on_error::skip}));
    REQUIRE(result.failed);
    CHECK(result.failed->message == "no answer");
  }
}

TEST_CASE("resumed runs with splits continue exactly, with failures before, at and after the checkpoint") {
  const auto run = [](const std::string& name, const auto& make_stage) {
    fl::test::leave_and_resume(name, 60, [&](fl::test::draw& d, const fl::test::circumstances& c) {
      const int size = static_cast<int>(d(1, 60)), bad = static_cast<int>(d(1, 9));
      const makes check = [bad](int n, fl::context& x) {
        return n % 10 == bad && x.sub_index == 0 ? throw unlucky(n)
                                                 : 100 * n + static_cast<int>(x.random.below(100));
      };
      const std::size_t first = d(1, 12), second = d(1, 20), of_batch = d(1, 7);
      return fl::from(count_to(size)) | fl::shuffle({.capacity = first}) |
             fl::parallel(fl::workers{c.workers}, make_stage(check)) | fl::shuffle({.capacity = second}) |
             fl::batch(of_batch);
    });
  };
  run("split into maps", [](const makes& check) { return maps(is_even, check, check); });
  run("split into filters", [](const makes& check) { return filters(is_even, check, no_third); });
  run("split into parts", [](const makes& check) { return parts(no_third, some, check); });
}

TEST_CASE("a sample that failed in a split stays left out if it is readable when the run is resumed") {
  std::atomic<bool> is_broken = true;
  int resumed = 0;
  for (int bad = 0; bad < 30; ++bad) {
    const makes fragile = [&, bad](int n, fl::context&) {
      return is_broken && n == bad ? throw unlucky(n) : n;
    };
    for (const bool filtered : {false, true})
      for (std::size_t taken = 1; taken < 8; ++taken) {
        const fl::finite_options skipping{.on_error = fl::on_error::skip};
        const auto from = fl::from(count_to(30));
        const fl::any_pipeline<fl::batch_of<int>> p =
            filtered ? fl::any_pipeline<fl::batch_of<int>>(from | filters(always, fragile, no_third) |
                                                           fl::batch(4))
                     : from | fl::parallel(fl::workers{2}, maps(always, fragile, negative)) | fl::batch(4);
        is_broken = true;
        auto first = p.finite(skipping);
        for (std::size_t i = 0; i < taken; ++i) first.next();
        if (first.failures().empty()) continue;
        ++resumed;
        auto options = skipping;
        options.resume = first.checkpoint();
        is_broken = false;
        auto again = p.finite(options);
        for (auto expected = first.next(); expected; expected = first.next())
          REQUIRE(again.next().value().indices() == expected->indices());
        CHECK_FALSE(again.next());
      }
  }
  CHECK(resumed > 100);
}

TEST_CASE("a checkpoint of a split with other branches is refused") {
  const auto of = [](auto stage) { return fl::any_pipeline<int>(fl::from(count_to(50)) | std::move(stage)); };
  const auto a = fl::map(tenfold, fl::name{"a"}), b = fl::map(tenfold, fl::name{"b"});
  auto loader = of(fl::split(is_even, a | b, b)).infinite();
  loader.next();
  const fl::checkpoint taken = loader.checkpoint();
  CHECK(of(fl::split(is_even, a | b, b)).infinite({.resume = taken}).next());
  CHECK_THROWS_AS(of(fl::split(is_even, a, b | b)).infinite({.resume = taken}), std::invalid_argument);
  CHECK_THROWS_AS(of(fl::split(is_even, a | b, a)).infinite({.resume = taken}), std::invalid_argument);
  CHECK_THROWS_AS(of(fl::split(is_even, b, a | b)).infinite({.resume = taken}), std::invalid_argument);
  CHECK_THROWS_AS(of(fl::split(is_even, a | b)).infinite({.resume = taken}), std::invalid_argument);
}

TEST_CASE("ranks divide the samples upstream of a split") {
  const auto on_rank = [](std::uint32_t number, std::uint32_t of) {
    const any_numbers p = fl::from(count_to(60)) | fl::global_shuffle() |
                          fl::parallel(fl::workers{2}, maps(is_even, tenfold, negative));
    return collect(p.infinite({.seed = 1, .rank = {number, of}}), 60 / of);
  };
  numbers together = on_rank(0, 2);
  for (const int n : on_rank(1, 2)) together.push_back(n);
  numbers alone = on_rank(0, 1);
  std::sort(alone.begin(), alone.end());
  std::sort(together.begin(), together.end());
  CHECK(together == alone);
}

TEST_CASE("the size of an epoch is known if each branch of a split emits one item for each") {
  CHECK(on_workers(30, 1, maps(is_even, tenfold, negative)).size() == 30);
  CHECK_FALSE(on_workers(30, 1, filters(is_even, tenfold, always)).size());
}

TEST_CASE("the memory plan has the items inside a split, and asks for their size") {
  using text = std::string;
  const auto to_text = [](fl::max_item_bytes limit) {
    return fl::split(is_even, fl::map([](int) { return text(100, 'x'); }, limit) | fl::map(&text::size),
                     fl::map([](int) { return std::size_t{1}; }), fl::name{"x"});
  };
  const auto of = [&](fl::max_item_bytes limit) {
    return fl::from(count_to(9)) | to_text(limit) | fl::batch(4);
  };
  CHECK(throws_saying<std::invalid_argument>("between the stages of split `x`",
                                             [&] { of({}).finite({.memory_budget = 1'000'000}); }));
  CHECK(collect(of({500}).finite({.memory_budget = 1'000'000})).size() == 3);
  CHECK(*of({80'500}).memory().bytes() - *of({500}).memory().bytes() == 80'000);
}

TEST_CASE("the memory plan of a cache has the items inside its stages") {
  using text = std::string;
  const auto of = [](fl::max_item_bytes limit, auto... workers) {
    return fl::from(count_to(9)) |
           fl::split(is_even, fl::map([](int) { return text(100, 'x'); }, limit) | fl::map(&text::size),
                     fl::map([](int) { return std::size_t{1}; })) |
           fl::map([](std::size_t n) { return n; }, workers...) | fl::cache({.memory_bytes = 1000}) |
           fl::batch(4);
  };
  for (const bool shared : {false, true}) {
    const auto plan_of = [&](fl::max_item_bytes limit) {
      return shared ? of(limit, fl::workers{2}).memory() : of(limit).memory();
    };
    CAPTURE(to_string(plan_of({500})));
    CHECK_FALSE(plan_of({}).bytes());
    CHECK(*plan_of({80'500}).bytes() - *plan_of({500}).bytes() == (shared ? 160'000 : 80'000));
  }
  CHECK(throws_saying<std::invalid_argument>("between the stages of split",
                                             [&] { of({}).finite({.memory_budget = 1'000'000}); }));
}

TEST_CASE(
    "the memory plan has once what stages keep inside a split or a cache, however many workers share it") {
  const auto bytes_of = [](std::size_t kept, std::uint64_t cached, auto... workers) {
    return (fl::from(count_to(9)) | fl::split(always, with_table{kept}, with_table{0}, workers...) |
            fl::cache({.memory_bytes = cached, .items_per_sample = 1}) |
            fl::map([](int n) { return n; }, workers...) |
            fl::cache({.memory_bytes = 1000, .items_per_sample = 1}) | fl::batch(4))
        .memory()
        .bytes()
        .value();
  };
  for (const auto added : {bytes_of(5'000'000, 1000) - bytes_of(0, 1000),
                           bytes_of(5'000'000, 1000, fl::workers{3}) - bytes_of(0, 1000, fl::workers{3}),
                           bytes_of(0, 5'001'000) - bytes_of(0, 1000),
                           bytes_of(0, 5'001'000, fl::workers{3}) - bytes_of(0, 1000, fl::workers{3})})
    CHECK(added == 5'000'000);
}

TEST_CASE("metrics count the items of each branch, and what the functions in them count") {
  const makes counting = [](int n, fl::context& c) {
    c.count("seen");
    return n;
  };
  for (const any_numbers& p : {on_workers(30, 2, maps(no_third, counting, negative)),
                               on_workers(30, 2, filters(no_third, counting, always))}) {
    auto loader = p.finite();
    collect(loader);
    const fl::metrics all = loader.metrics();
    std::vector<std::pair<std::string, double>> counts;
    for (const fl::user_metric& m : all.total.stages.at(1).user_metrics) counts.emplace_back(m.name, m.value);
    std::sort(counts.begin(), counts.end());
    CHECK(counts == std::vector<std::pair<std::string, double>>{{"false", 10}, {"seen", 20}, {"true", 20}});
  }
}

TEST_CASE("a stop ends a split in which a branch reads an endless range and lets nothing through") {
  const fl::test::watchdog guard("a stop inside a branch");
  std::atomic<bool> is_inside = false;
  const auto endless = fl::flat_map([](int) { return std::views::iota(0); });
  const auto nothing = fl::filter([&](int) {
    is_inside = true;
    is_inside.notify_all();
    return false;
  });
  auto loader = (fl::from(count_to(3)) | fl::split(always, endless | nothing, fl::workers{2})).infinite();
  is_inside.wait(false);
  loader.stop();
  CHECK_FALSE(loader.next());
}

TEST_CASE("one sample can be replayed through a split, whose results can be cached and mixed") {
  const any_numbers two_parts = on_workers(9, 2,
                                           parts(
                                               is_even,
                                               [](int n) {
                                                 return numbers{n, 10 * n};
                                               },
                                               noisy));
  const auto p = fl::from(count_to(9)) | parts(
                                             is_even,
                                             [](int n) {
                                               return numbers{n, 10 * n};
                                             },
                                             negative);
  CHECK(p.replay(7, {.index = 4, .sub_index = 1}) == -40);
  CHECK(p.replay(7, {.index = 5}) == -5);
  const auto cached = p | fl::cache({.memory_bytes = 100'000});
  for (int times = 0; times < 2; ++times) CHECK(collect(cached.finite()) == collect(p.finite()));
  const auto converted = fl::from(count_to(3)) | maps(is_even, tenfold, negative);
  CHECK(collect(fl::concat(converted, converted).finite()) == numbers{0, -1, 20, 0, -1, 20});
}

TEST_CASE("large items pass a split, whose stages hold one each") {
  using large = std::array<int, 400'000>;
  const auto make = fl::map([](int n) { return large{n}; });
  const auto same = [] { return fl::map([](large l) { return l; }); };
  const auto of = fl::split(is_even, make | same() | same() | same() | same(), make, fl::workers{2});
  CHECK(collect((fl::from(count_to(9)) | of | fl::map([](const large& l) { return l[0]; })).finite()) ==
        count_to(9));
}

TEST_CASE("split keeps the promises of a stage") {
  fl::testing::check_options o{.places = 8, .has_budget = true};
  fl::testing::check_stage([] { return maps(is_even, tenfold, noisy); }, count_to(11), o);
  fl::testing::check_stage([] { return filters(is_even, noisy, no_third); }, count_to(11), o);
  fl::testing::check_stage([] { return parts(is_even, some, noisy); }, count_to(11), o);
}
