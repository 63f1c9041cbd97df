// SPDX-License-Identifier: MIT
#include <feedline/core/random.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace fl = feedline;
using fl::random_generator;

namespace {

/// Sum of (observed - expected)² / expected over equally likely cells.
template <class Counts>
double chi_square(const Counts& counts, double draws) {
  const double expected = draws / static_cast<double>(counts.size());
  double sum = 0;
  for (const int c : counts) sum += (c - expected) * (c - expected) / expected;
  return sum;
}

} // namespace

TEST_CASE("A generator is a uniform random bit generator of 64 bits, usable at compile time") {
  STATIC_REQUIRE(std::uniform_random_bit_generator<random_generator>);
  STATIC_REQUIRE(random_generator::max() == ~std::uint64_t{0});
  STATIC_REQUIRE(random_generator(1)() == random_generator(1)());
  std::vector<int> v{1, 2, 3};
  std::shuffle(v.begin(), v.end(), random_generator(1));
}

TEST_CASE("The numbers are those of SplitMix64 on every platform") {
  random_generator r(0); // reference values of the algorithm for the state 0
  CHECK(r() == 0xe220a8397b1dcdaf);
  CHECK(r() == 0x6e789e6aa1b965f4);
  CHECK(r() == 0x06c45d188009454f);
  CHECK(fl::detail::key(1, 2) == fl::detail::key(1, 2));
}

TEST_CASE("Keys depend on every word, their order and their number") {
  std::set<std::uint64_t> keys;
  for (std::uint64_t a = 0; a < 50; ++a)
    for (std::uint64_t b = 0; b < 50; ++b) keys.insert(fl::detail::key(a, b));
  for (std::uint64_t a = 0; a < 50; ++a)
    keys.insert(fl::detail::key(a)), keys.insert(fl::detail::key(0, 0, a));
  keys.insert(fl::detail::key());
  CHECK(keys.size() == 2500 + 100 + 1);
}

TEST_CASE("below() returns each number below the bound equally often, and no other") {
  for (const std::uint64_t bound : {1u, 2u, 3u, 10u, 100u}) {
    std::vector<int> counts(bound);
    random_generator r(fl::detail::key(bound));
    for (int i = 0; i < 100'000; ++i) ++counts.at(r.below(bound));
    const double freedom = static_cast<double>(bound - 1);
    CHECK(chi_square(counts, 100'000) < freedom + 5 * std::sqrt(2 * freedom) + 1);
  }
  CHECK(random_generator(1).below(0) == 0);
  random_generator wide(2);
  bool upper = false;
  const std::uint64_t bound = (std::uint64_t{1} << 63) + 1;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t x = wide.below(bound);
    CHECK(x < bound);
    upper = upper || x > bound / 2;
  }
  CHECK(upper);
}

TEST_CASE("uniform() and chance() respect their ranges and probabilities") {
  random_generator r(7);
  double sum = 0;
  int heads = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double x = r.uniform();
    CHECK((x >= 0 && x < 1));
    sum += x;
    const double y = r.uniform(-3, 5);
    CHECK((y >= -3 && y < 5));
    heads += r.chance(0.25);
  }
  CHECK(sum / 100'000 == Approx(0.5).margin(0.01));
  CHECK(heads / 100'000.0 == Approx(0.25).margin(0.01));
  CHECK_FALSE(r.chance(0));
  CHECK(r.chance(1));
}

TEST_CASE("uniform() stays below its upper bound, however close or far the lower one is") {
  const std::array<std::pair<double, double>, 9> ranges{{{1e15, 1e15 + 1},
                                                         {1e9, 1e9 + 1e-6},
                                                         {-1e15 - 1, -1e15},
                                                         {-1e-300, 0},
                                                         {-5e-324, 5e-324},
                                                         {1, std::nextafter(1, 2)},
                                                         {-1, std::nextafter(-1, 0)},
                                                         {-1.7e308, 1.7e308},
                                                         {0.1, 0.3}}};
  random_generator r(11);
  for (const auto& [low, high] : ranges) {
    double sum = 0;
    for (int i = 0; i < 20'000; ++i) {
      const double x = r.uniform(low, high);
      REQUIRE(x >= low);
      REQUIRE(x < high);
      sum += x / 20'000;
    }
    CHECK(sum == Approx(low / 2 + high / 2).margin(std::abs(high / 50 - low / 50) + 1e-300));
  }
  CHECK(r.uniform(2, 2) == 2);
  random_generator before(5), after(5);
  for (int i = 0; i < 1000; ++i) { // the numbers of earlier versions
    const double u = before.uniform();
    CHECK(after.uniform(-3, 5) == -3 + 8 * u);
  }
  CHECK(before() == after());
}

TEST_CASE("shuffle_range produces each order of four items equally often") {
  std::array<int, 24> counts{};
  for (std::uint64_t seed = 0; seed < 24'000; ++seed) {
    std::array<int, 4> items{0, 1, 2, 3};
    fl::detail::shuffle_range(items.begin(), items.size(), random_generator(fl::detail::key(seed)));
    std::array<int, 4> order = items, sorted{0, 1, 2, 3};
    int number = 0;
    while (sorted != order) std::next_permutation(sorted.begin(), sorted.end()), ++number;
    ++counts.at(static_cast<std::size_t>(number));
  }
  CHECK(chi_square(counts, 24'000) < 23 + 5 * std::sqrt(46.0));
}
