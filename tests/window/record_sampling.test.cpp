// SPDX-License-Identifier: MIT
#include <feedline/window/record_sampling.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

/// How often each record is taken in these passes.
std::vector<int> times_taken(std::size_t records, const fl::record_sampling& how, std::uint64_t chunk,
                             std::uint64_t first_pass, std::uint64_t passes) {
  std::vector<int> times(records);
  for (std::uint64_t pass = first_pass; pass < first_pass + passes; ++pass)
    for (const std::size_t i : fl::sampled_records(records, how, chunk, pass)) ++times.at(i);
  return times;
}

bool all_are(const std::vector<int>& times, int n) {
  return std::all_of(times.begin(), times.end(), [&](int t) { return t == n; });
}

} // namespace

TEST_CASE("A fixed number of records is taken in ascending order, different ones for each chunk") {
  std::set<std::vector<std::size_t>> choices;
  for (std::uint64_t chunk = 0; chunk < 50; ++chunk) {
    const auto taken = fl::sampled_records(300, {.count = 7}, chunk, 3);
    REQUIRE(taken.size() == 7);
    REQUIRE(std::adjacent_find(taken.begin(), taken.end(), std::greater_equal<>()) == taken.end());
    REQUIRE(taken.back() < 300);
    REQUIRE(taken == fl::sampled_records(300, {.count = 7}, chunk, 3));
    choices.insert(taken);
  }
  CHECK(choices.size() == 50);
}

TEST_CASE("Passes take each record once before they take one again") {
  const std::uint64_t late = std::numeric_limits<std::uint64_t>::max() / 2;
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{9}, late}) {
    INFO("from pass " << first);
    CHECK(all_are(times_taken(100, {.count = 10}, 5, first, 10), 1));
    CHECK(all_are(times_taken(100, {.count = 15}, 5, first, 20), 3)); // positions that wrap around
    CHECK(all_are(times_taken(1000, {.rate = 0.125}, 5, first, 8), 1));
    CHECK(all_are(times_taken(1000, {.rate = 0.375}, 5, first, 8), 3));
  }
}

TEST_CASE("Each record is taken with the probability of the rate") {
  const std::size_t chunks = 4000, records = 50;
  std::vector<double> times(records);
  for (std::uint64_t chunk = 0; chunk < chunks; ++chunk)
    for (const std::size_t i : fl::sampled_records(records, {.rate = 0.3}, chunk, chunk % 3)) ++times[i];
  const double expected = 0.3 * chunks, deviation = std::sqrt(chunks * 0.3 * 0.7);
  for (const double t : times) CHECK(std::abs(t - expected) < 4 * deviation);
}

TEST_CASE("All records are taken if no fewer are requested, and none from an empty chunk") {
  CHECK(all_are(times_taken(30, {}, 1, 0, 2), 2));
  CHECK(all_are(times_taken(30, {.count = 30}, 1, 0, 2), 2));
  CHECK(all_are(times_taken(30, {.count = 31}, 1, 7, 1), 1));
  CHECK(all_are(times_taken(30, {.rate = 0}, 1, 0, 9), 0));
  CHECK(fl::sampled_records(0, {.count = 3}, 1, 0).empty());
  CHECK(fl::sampled_records(0, {.rate = 0.5}, 1, 0).empty());
  CHECK(fl::sampled_records(1, {.count = 1}, 1, 100) == std::vector<std::size_t>{0});
}

TEST_CASE("Invalid rates are refused") {
  for (const double rate : {-0.1, 1.1, std::nan("")})
    CHECK(throws_saying<std::invalid_argument>("the rate must be from 0 to 1",
                                               [&] { fl::sampled_records(1, {.rate = rate}, 0, 0); }));
  CHECK(throws_saying<std::invalid_argument>(
      "a rate or a count, not both", [] { fl::sampled_records(1, {.rate = 0.5, .count = 1}, 0, 0); }));
}
