// SPDX-License-Identifier: MIT
#include <feedline/core/permutation.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

/// How many standard deviations Pearson's chi-square is from its mean, if all cells are equally likely.
double deviation(const std::vector<std::uint64_t>& cells) {
  double total = 0, chi = 0;
  for (const std::uint64_t c : cells) total += static_cast<double>(c);
  const double expected = total / static_cast<double>(cells.size());
  for (const std::uint64_t c : cells)
    chi += (static_cast<double>(c) - expected) * (static_cast<double>(c) - expected) / expected;
  const double freedom = static_cast<double>(cells.size() - 1);
  return (chi - freedom) / std::sqrt(2 * freedom);
}

std::size_t cell_of(std::uint64_t value, std::uint64_t size, std::size_t cells) {
  return static_cast<std::size_t>(value * cells / size);
}

} // namespace

TEST_CASE("A permutation contains each number once") {
  for (const std::uint64_t size :
       {0u, 1u, 2u, 3u, 255u, 256u, 257u, 288u, 289u, 1023u, 1024u, 1025u, 99'991u})
    for (std::uint64_t key = 0; key < 20; ++key) {
      const fl::permutation p(size, key);
      REQUIRE(p.size() == size);
      std::vector<bool> seen(size);
      for (std::uint64_t i = 0; i < size; ++i) {
        REQUIRE(p[i] < size);
        REQUIRE_FALSE(seen[p[i]]);
        seen[p[i]] = true;
      }
    }
}

TEST_CASE("A permutation finds the position of each number") {
  for (std::uint64_t size = 1; size < 3000; size += 1 + size / 40)
    for (std::uint64_t key = 0; key < 20; ++key) {
      const fl::permutation p(size, key);
      std::uint64_t found = 0;
      for (std::uint64_t i = 0; i < size; ++i) found += p.find(p[i]) == i;
      INFO("size " << size << ", key " << key);
      REQUIRE(found == size);
    }
  for (const std::uint64_t size : {std::uint64_t{99'991}, std::uint64_t{1} << 32, fl::permutation::most}) {
    const fl::permutation p(size, 9);
    for (std::uint64_t i = 0; i < size; i += 1 + size / 1000) REQUIRE(p.find(p[i]) == i);
  }
}

TEST_CASE("A permutation of 2^40 numbers stays within them, and a larger one is refused") {
  for (const std::uint64_t size :
       {fl::permutation::most, fl::permutation::most - 1, (std::uint64_t{1} << 39) + 1}) {
    const fl::permutation p(size, 5);
    for (std::uint64_t i = 0; i < 1000; ++i) {
      REQUIRE(p[i] < size);
      REQUIRE(p[size - 1 - i] < size);
    }
  }
  CHECK_THROWS_AS(fl::permutation(fl::permutation::most + 1, 0), std::length_error);
  CHECK(throws_saying<std::length_error>("the size must be from 0 to 2^40, not -1",
                                         [] { fl::permutation(static_cast<std::uint64_t>(-1), 0); }));
}

TEST_CASE("A permutation is the same on every platform") {
  const auto first = [](std::uint64_t size) {
    const fl::permutation p(size, 7);
    return std::vector{p[0], p[1], p[2], p[3]};
  };
  CHECK(first(10) == std::vector<std::uint64_t>{9, 5, 8, 6});
  CHECK(first(1000) == std::vector<std::uint64_t>{942, 933, 728, 836});
  CHECK(first(std::uint64_t{1} << 40) ==
        std::vector<std::uint64_t>{1027930562204, 928129712146, 379415843197, 281675789376});
}

TEST_CASE("Over many keys each pair of numbers is equally likely at each pair of positions") {
  for (const std::uint64_t size : {3u, 40u, 257u}) {
    const std::uint64_t last = size - 1;
    std::vector<std::vector<std::uint64_t>> tables(3, std::vector<std::uint64_t>(size * last));
    const std::uint64_t keys = 20 * size * last + 10'000;
    for (std::uint64_t key = 0; key < keys; ++key) {
      const fl::permutation p(size, key);
      const auto count = [&](std::size_t table, std::uint64_t a, std::uint64_t b) {
        ++tables[table][p[a] * last + p[b] - (p[b] > p[a])];
      };
      count(0, 0, 1);
      count(1, 0, last);
      count(2, size / 2, last);
    }
    for (const auto& table : tables) CHECK(std::abs(deviation(table)) < 4.5);
  }
}

TEST_CASE("Within a permutation positions, gaps and neighbours are evenly distributed") {
  for (const std::uint64_t size : {100'000u, 262'144u, 262'145u})
    for (std::uint64_t key = 0; key < 3; ++key) {
      const fl::permutation p(size, key);
      std::vector<std::uint64_t> gaps(256), neighbours(256), places(256), second_gaps(256);
      for (std::uint64_t i = 0; i + 2 < size; ++i) {
        const std::uint64_t a = p[i], b = p[i + 1], c = p[i + 2];
        ++gaps[cell_of((b + size - a) % size, size, 256)];
        ++second_gaps[cell_of((c + 2 * size - 2 * b + a) % size, size, 256)];
        ++neighbours[cell_of(a, size, 16) * 16 + cell_of(b, size, 16)];
        ++places[cell_of(i, size, 16) * 16 + cell_of(a, size, 16)];
      }
      for (const auto& table : {gaps, second_gaps, neighbours, places}) CHECK(deviation(table) < 4.5);
    }
}

TEST_CASE("Permutations of neighbouring keys are independent") {
  const std::uint64_t size = 100'000;
  std::vector<std::uint64_t> gaps(256);
  const fl::permutation p(size, 1), q(size, 2);
  for (std::uint64_t i = 0; i < size; ++i) ++gaps[cell_of((p[i] + size - q[i]) % size, size, 256)];
  CHECK(std::abs(deviation(gaps)) < 4.5);
}
