// SPDX-License-Identifier: MIT
#include <feedline/source/with_replacement.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/loader.hpp>
#include <feedline/source/range.hpp>
#include <feedline/source/zip.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>
#include <feedline/stage/shuffle.hpp>

#include "support/catch.hpp"
#include "support/leave_and_resume.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

auto numbers_to(int size) {
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return fl::from(std::move(all));
}

template <class Pipeline>
std::vector<int> drawn(const Pipeline& p, std::uint32_t epochs, std::uint64_t seed = 3) {
  std::vector<int> all;
  for (const int n : p.finite({.seed = seed, .epochs = epochs})) all.push_back(n);
  return all;
}

/// The sum of (seen - expected)^2 / expected.
double chi_square(const std::vector<int>& seen, const std::vector<double>& chances) {
  std::vector<double> counts(chances.size());
  for (const int n : seen) ++counts[static_cast<std::size_t>(n)];
  double sum = 0;
  for (std::size_t i = 0; i < chances.size(); ++i) {
    const double expected = chances[i] * static_cast<double>(seen.size());
    if (expected == 0) CHECK(counts[i] == 0);
    else sum += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return sum;
}

} // namespace

TEST_CASE("Draws are independent: all samples are drawn about equally often, some twice in an epoch") {
  const auto p = numbers_to(50) | fl::with_replacement() | fl::prefetch(10);
  const auto first = drawn(p, 1);
  CHECK(first.size() == 50);
  std::map<int, int> often;
  for (const int n : first) ++often[n];
  CHECK(often.size() < 45); // about 1 - 1/e of them
  CHECK(often.size() > 20);
  const auto many = drawn(p, 400);
  CHECK(many.size() == 20'000);
  CHECK(chi_square(many, std::vector<double>(50, 0.02)) <
        94); // 49 degrees of freedom: one in 10,000 is above
  CHECK(drawn(p, 2) == std::vector<int>(many.begin(), many.begin() + 100));
  CHECK(drawn(p, 2, 4) != drawn(p, 2, 3));
}

TEST_CASE("The chance of a sample is proportional to its weight") {
  const std::vector<double> weights{1, 0, 2.5, 0.001, 4, 2.499};
  const auto p =
      numbers_to(6) | fl::with_replacement({.weights = weights, .samples = 1000}) | fl::prefetch(10);
  const auto many = drawn(p, 50);
  CHECK(many.size() == 50'000);
  std::vector<double> chances;
  for (const double w : weights) chances.push_back(w / 10);
  CHECK(chi_square(many, chances) < 26); // 4 degrees of freedom
}

TEST_CASE("Invalid weights are rejected") {
  const auto refuses = [](std::vector<double> weights, const char* why) {
    return throws_saying<std::invalid_argument>(why, [&] { fl::with_replacement({.weights = weights}); });
  };
  CHECK(refuses({1, -1}, "a weight must be a finite number of at least 0, not -1"));
  CHECK(refuses({1, NAN}, "a weight must be a finite number of at least 0, not nan"));
  CHECK(refuses({1, INFINITY}, "a weight must be a finite number of at least 0, not inf"));
  CHECK(refuses({0, 0}, "all weights are 0"));
  auto loader = (numbers_to(3) | fl::with_replacement({.weights = {1, 2}}) | fl::prefetch(1)).finite();
  CHECK(throws_saying<fl::pipeline_error>("there are 2 weights for 3 samples", [&] { loader.next(); }));
  CHECK((numbers_to(0) | fl::with_replacement({.samples = 5}) | fl::prefetch(1)).finite().next() ==
        std::nullopt);
}

TEST_CASE("Each draw of a sample has random numbers of its own, and replay() finds them") {
  const auto random = [](int, fl::context& c) { return c.random(); };
  for (const std::size_t workers : {0u, 1u, 64u}) {
    const auto draws = numbers_to(5) | fl::with_replacement({.samples = 200});
    const auto check = [&](const auto& p) {
      std::set<std::uint64_t> numbers;
      std::set<std::uint64_t> indices;
      auto loader = p.finite({.seed = 3});
      for (const auto& batch : loader) {
        for (std::size_t i = 0; i < batch.size(); ++i) {
          const fl::sample_id id = batch.ids()[i];
          CHECK(p.replay(3, id) == batch.values()[i]);
          indices.insert(id.index);
          numbers.insert(batch.values()[i]);
        }
      }
      CHECK(indices.size() == 5);
      CHECK(numbers.size() == 200);
    };
    if (workers == 0) check(draws | fl::map(random) | fl::batch(8));
    else check(draws | fl::map(random, fl::workers{workers}) | fl::batch(8));
  }
}

TEST_CASE("Ranks have different draws, and a zip pairs them") {
  const auto random = [](std::pair<int, int> both, fl::context& c) {
    CHECK(both.first == both.second);
    return c.random();
  };
  std::set<std::uint64_t> numbers;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const auto same = numbers_to(4) | fl::with_replacement({.samples = 90});
    const auto p = same | fl::map([](int, fl::context& c) { return c.random(); }) | fl::prefetch(2);
    for (const std::uint64_t n : p.finite({.rank = {rank, 3}})) numbers.insert(n);
  }
  CHECK(numbers.size() == 90);
  const auto same = numbers_to(4) | fl::with_replacement({.samples = 90});
  numbers.clear();
  for (const std::uint64_t n : (fl::zip(same, same) | fl::map(random) | fl::prefetch(2)).finite())
    numbers.insert(n);
  CHECK(numbers.size() == 90);
}

TEST_CASE("More draws than a repetition can number are rejected") {
  auto loader =
      (numbers_to(3) | fl::with_replacement({.samples = std::uint64_t{1} << 32}) | fl::prefetch(1)).finite();
  CHECK(throws_saying<fl::pipeline_error>("an epoch has at most 2^32 - 1 draws", [&] { loader.next(); }));
}

TEST_CASE("Draws are resumed, also those that a buffer holds several times") {
  leave_and_resume("draws", 60, [](draw& d, const circumstances& c) {
    std::vector<double> weights(d(1, 40));
    for (double& w : weights) w = static_cast<double>(d(1, 5));
    const auto size = static_cast<int>(weights.size());
    return numbers_to(size) | fl::with_replacement({.weights = weights, .samples = d(1, 100)}) |
           fl::map([](int n,
                      fl::context& context) { return n + static_cast<int>(context.random.below(3)) * 100; },
                   fl::workers{c.workers}) |
           fl::shuffle({.capacity = d(1, 30)}) | fl::batch(d(1, 9));
  });
}
