// SPDX-License-Identifier: MIT
#include <feedline/core/sample.hpp>

#include <cstdint>
#include <set>
#include <stop_token>
#include <type_traits>

#include "support/catch.hpp"

namespace fl = feedline;

TEST_CASE("Identities of samples compare, and have no index by default") {
  STATIC_REQUIRE(std::is_aggregate_v<fl::sample_id>);
  STATIC_REQUIRE(std::is_trivially_copyable_v<fl::sample<int>>);
  CHECK(fl::sample_id{}.index == fl::sample_id::no_index);
  CHECK(fl::sample_id{1, 2, 3} == fl::sample_id{1, 2, 3});
  CHECK_FALSE(fl::sample_id{1, 2, 3} == fl::sample_id{1, 2, 4});
}

TEST_CASE("A context's random numbers depend only on seed and stage, epoch, index and part") {
  const std::stop_token stop;
  std::set<std::uint64_t> numbers;
  for (std::uint64_t stage : {1u, 2u})
    for (std::uint64_t index : {0u, 1u, 7u})
      for (std::uint32_t part : {0u, 1u})
        for (std::uint32_t epoch : {0u, 1u}) {
          fl::context c = fl::detail::make_context({index, part, epoch}, stage, stop);
          CHECK(c.index == index);
          CHECK(c.sub_index == part);
          CHECK(c.epoch == epoch);
          const std::uint64_t number = c.random();
          CHECK(number == fl::detail::make_context({index, part, epoch}, stage, stop).random());
          numbers.insert(number);
        }
  CHECK(numbers.size() == 2 * 3 * 2 * 2);
}
