// SPDX-License-Identifier: MIT
#include <feedline/core/parts.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using feedline::test::throws_saying;

TEST_CASE("The sizes of partitions are in proportion to their weights") {
  const fl::parts all(std::vector{70.0, 0.0, 20.0, 10.0});
  REQUIRE(all.size() == 4);
  std::array<int, 4> counts{};
  for (std::uint64_t key = 0; key < 100'000; ++key) ++counts[all(fl::stable_hash(key))];
  CHECK(counts[0] > 69'000);
  CHECK(counts[0] < 71'000);
  CHECK(counts[1] == 0);
  CHECK(counts[2] > 19'000);
  CHECK(counts[2] < 21'000);
  CHECK(all(0) == 0);
  CHECK(all(~std::uint64_t{0}) == 3);
}

TEST_CASE("A hash stays in its partition when a later one is split in two") {
  const fl::parts two(std::vector{3.0, 7.0}), three(std::vector{3.0, 5.0, 2.0});
  for (std::uint64_t key = 0; key < 1000; ++key) {
    const std::uint64_t hash = fl::stable_hash(key);
    CHECK((two(hash) == 0) == (three(hash) == 0));
  }
  CHECK(two.fingerprint() != three.fingerprint());
}

TEST_CASE("Invalid weights are refused") {
  const auto make = [](std::vector<double> weights) { return [weights] { fl::parts{weights}; }; };
  CHECK(throws_saying<std::invalid_argument>("finite and above 0", make({})));
  CHECK(throws_saying<std::invalid_argument>("finite and above 0", make({0, 0})));
  CHECK(throws_saying<std::invalid_argument>("finite and at least 0", make({1, -1})));
  CHECK(throws_saying<std::invalid_argument>("finite and at least 0",
                                             make({1, std::numeric_limits<double>::infinity()})));
  CHECK(throws_saying<std::invalid_argument>("finite and at least 0",
                                             make({std::numeric_limits<double>::quiet_NaN()})));
}

TEST_CASE("Equal numbers or texts have equal hashes as keys") {
  CHECK(fl::detail::hash_of_key(std::string("a/b")) == fl::detail::hash_of_key("a/b"));
  CHECK(fl::detail::hash_of_key(7) == fl::detail::hash_of_key(std::uint64_t{7}));
  CHECK(fl::detail::hash_of_key(7) != fl::detail::hash_of_key(8));
}
