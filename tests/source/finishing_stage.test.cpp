// SPDX-License-Identifier: MIT
// Workers at the end of the parts of mix, concat and zip.
#include <feedline/source/detail/finishing_stage.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/testing/check_source.hpp>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

using texts = std::vector<std::string>;
using function = std::function<std::string(int, fl::context&)>;

/// The number with everything that a function sees of its sample; fails for multiples of 7.
std::string described(char kind, int n, fl::context& c) {
  if (n % 7 == 0) throw unlucky(n);
  return kind + std::to_string(n) + " at " + std::to_string(c.index) + " in " + std::to_string(c.epoch) +
         ": " + std::to_string(c.random.below(1'000'000));
}

const auto odd = [](int n) { return n % 2 == 1; };

/// Numbers below `count`, described on the source's thread, or on workers.
template <bool OnWorkers>
auto part(int count, char kind, std::size_t workers) {
  std::vector<int> all;
  for (int i = 0; i < count; ++i) all.push_back(i);
  const function describe = [kind](int n, fl::context& c) { return described(kind, n, c); };
  const auto front = fl::from(all) | fl::filter(odd) | fl::map([](int n, fl::context& c) {
                       return n + 100 * static_cast<int>(c.random.below(10));
                     });
  if constexpr (OnWorkers) return front | fl::map(describe, fl::workers{workers}, fl::name{"describe"});
  else return front | fl::map(describe, fl::name{"describe"});
}

/// A run with its items' type erased.
using run = fl::loader<fl::batch_of<std::string, fl::as_list_t>>;
using start = std::function<run(const fl::infinite_options&)>;

template <class Pipeline>
start starting(const Pipeline& p) {
  return [p](const fl::infinite_options& o) -> run {
    fl::infinite_options own = o;
    own.on_error = fl::on_error::skip;
    const auto random = [](std::string s, fl::context& c) {
      return s + ", " + std::to_string(c.random.below(1000));
    };
    return (p | fl::map(random) | fl::shuffle({.capacity = 4}) | fl::batch(3, fl::as_list)).infinite(own);
  };
}

/// `combine` makes a pipeline of two parts.
template <class F>
void check_equal(F combine, std::size_t first, std::size_t second) {
  const start serial = starting(combine(part<false>(20, 'a', 0), part<false>(9, 'b', 0)));
  const start parallel = starting(combine(part<true>(20, 'a', first), part<true>(9, 'b', second)));
  for (const fl::rank& rank : {fl::rank{}, fl::rank{1, 3}}) {
    const std::size_t steps = 30;
    std::vector<texts> batches;
    std::vector<std::vector<fl::sample_id>> ids;
    std::vector<std::string> failures;
    run expected = serial({.seed = 5, .rank = rank});
    for (std::size_t i = 0; i < steps; ++i) {
      const auto b = expected.next();
      batches.emplace_back(b->values().begin(), b->values().end());
      ids.emplace_back(b->ids().begin(), b->ids().end());
    }
    for (const fl::failure& f : expected.failures()) failures.push_back(f.message);
    std::optional<fl::checkpoint> from;
    for (std::size_t step = 0; step < steps;) {
      run loader = parallel({.seed = 5, .rank = rank, .resume = from});
      for (std::size_t more = 0; more < 1 + step % 5 && step < steps; ++more, ++step) {
        const auto b = loader.next();
        REQUIRE(texts(b->values().begin(), b->values().end()) == batches[step]);
        REQUIRE(std::equal(ids[step].begin(), ids[step].end(), b->ids().begin(), b->ids().end()));
      }
      from = fl::checkpoint::from_bytes(loader.checkpoint().to_bytes());
    }
    CHECK_FALSE(failures.empty());
    run whole = parallel({.seed = 5, .rank = rank});
    for (std::size_t i = 0; i < steps; ++i) REQUIRE(whole.next());
    std::vector<std::string> same;
    for (const fl::failure& f : whole.failures()) same.push_back(f.message);
    CHECK(same == failures);
  }
  fl::testing::check_source([=] { return combine(part<true>(20, 'a', first), part<true>(11, 'b', second)); },
                            {.places = 6});
}

} // namespace

TEST_CASE("Workers inside a mix change nothing") {
  const watchdog guard("workers in a mix");
  check_equal([](auto a, auto b) { return fl::mix(fl::weighted(a, 0.6), fl::weighted(b, 0.4)); }, 3, 1);
}

TEST_CASE("Workers inside a concat change nothing") {
  const watchdog guard("workers in a concat");
  check_equal([](auto a, auto b) { return fl::concat(a, b); }, 1, 2);
}

TEST_CASE("Workers inside a zip change nothing, also if that is part of a mix") {
  const watchdog guard("workers in a zip");
  const auto both = [](const std::pair<std::string, std::string>& p) { return p.first + ", " + p.second; };
  check_equal(
      [&](auto a, auto b) {
        return fl::mix(fl::weighted(fl::zip(a, b), 1), fl::weighted(fl::zip(b, a), 1)) | fl::map(both);
      },
      2, 2);
}

TEST_CASE("Only some parts have workers, and they may yield other types") {
  const watchdog guard("different parts");
  const auto numbers = fl::from(std::vector{1, 2, 3});
  const auto text = [](int n) { return "text " + std::to_string(n); };
  const auto half = [](int n) { return n / 2.0; };
  auto loader =
      (fl::concat(numbers, numbers | fl::map(text, fl::workers{2}), numbers | fl::map(half, fl::workers{3}),
                  numbers | fl::map([](int n) { return 10 * n; }, fl::workers{64}, fl::name{"ten"})) |
       fl::prefetch(2))
          .finite();
  std::vector<std::variant<int, std::string, double>> all;
  while (auto item = loader.next()) all.push_back(*std::move(item));
  CHECK(all == std::vector<std::variant<int, std::string, double>>{1, 2, 3, "text 1", "text 2", "text 3", 0.5,
                                                                   1.0, 1.5, 10, 20, 30});
  const fl::interval_metrics m = loader.metrics().total;
  REQUIRE(m.segments.size() == 2);
  CHECK(m.segments[1].workers.size() == 2 + 3 + 64);
  CHECK(m.stages[1].name == "map or map or map `ten`");
  // A fixed number stays so beside an automatic one, and no sum is too large.
  const auto count = [&](const fl::workers& a, const fl::workers& b) {
    const function same = [](int n, fl::context&) { return std::to_string(n); };
    auto two = fl::concat(numbers | fl::map(same, a), numbers | fl::map(same, b)).infinite();
    return two.metrics().total.segments[1].workers.size();
  };
  CHECK(count({5}, fl::workers::automatic) == 5 + fl::processors());
  CHECK(count({200}, {200}) == 256);
  auto zipped = fl::zip(numbers | fl::map(text, fl::workers{2}), numbers).finite();
  CHECK(*zipped.next() == std::pair<std::string, int>("text 1", 1));
  CHECK(zipped.metrics().total.stages[1].name == "map");
}

TEST_CASE("A failure in a part names its stage, and ends the run at its position") {
  const watchdog guard("a failing part");
  const auto ten = [](int n) { return n == 2 ? throw unlucky(n) : 10 * n; };
  auto loader = fl::concat(fl::from(std::vector{1}),
                           fl::from(std::vector{1, 2, 3}) | fl::map(ten, fl::workers{2}, fl::name{"ten"}))
                    .finite();
  CHECK(loader.next() == 1);
  CHECK(loader.next() == 10);
  CHECK(throws_saying<fl::pipeline_error>("map `ten`", [&] { loader.next(); }));
}

TEST_CASE("The memory plan contains the items of parts with workers") {
  using image = fl::tensor<float, 10, 10>;
  const auto pipeline = fl::mix(
      fl::weighted(fl::from(std::vector{1}) | fl::map([](int) { return image(); }, fl::workers{2}), 1),
      fl::weighted(fl::from(std::vector{2}) | fl::map([](int) { return image(); }), 1));
  auto loader = pipeline.infinite({.memory_budget = 1'000'000});
  CHECK(loader.next());
  CHECK(loader.memory().bytes());
}

TEST_CASE("A run with workers inside its parts can be stopped at any moment") {
  const watchdog guard("stops");
  for (int after = 0; after < 5; ++after) {
    auto loader =
        fl::concat(fl::from(std::vector(1000, 1)) | fl::map([](int n) { return n; }, fl::workers{8}),
                   fl::from(std::vector(1000, 1)))
            .infinite();
    for (int i = 0; i < after; ++i) CHECK(loader.next() == 1);
  }
}
