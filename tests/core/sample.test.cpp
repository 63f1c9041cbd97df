// SPDX-License-Identifier: MIT
#include <feedline/core/sample.hpp>

#include <algorithm>
#include <cstdint>
#include <ranges>
#include <set>
#include <span>
#include <stop_token>
#include <type_traits>
#include <vector>

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

TEST_CASE("Identities are a range in each form") {
  const std::vector<std::uint64_t> indices{7, 8, 9, 10};
  const fl::sample_id first{7, 1, 2, 3};
  std::vector<fl::sample_id> listed;
  for (const std::uint64_t index : indices) listed.push_back({index, 1, 2, 3});
  const fl::sample_ids forms[] = {{first, 4}, {first, indices}, fl::sample_ids(listed)};
  for (const fl::sample_ids& ids : forms) {
    CHECK(std::vector<fl::sample_id>(ids.begin(), ids.end()) == listed);
    CHECK(std::ranges::equal(ids, listed));
    CHECK(ids == forms[0]);
    CHECK(ids.front() == listed.front());
    CHECK(ids.back() == listed.back());
    CHECK(ids.subrange(1) == fl::sample_ids(std::span(listed).subspan(1)));
    CHECK(ids.subrange(1, 2) == fl::sample_ids(std::span(listed).subspan(1, 2)));
    CHECK_FALSE(ids == ids.subrange(1));
    CHECK(ids.subrange(4).empty());
    CHECK(ids.end() - ids.begin() == 4);
    CHECK(ids.begin()[3] == listed[3]);
    CHECK(*(ids.end() - 1) == listed[3]);
  }
  STATIC_REQUIRE(std::ranges::random_access_range<fl::sample_ids>);
  CHECK(forms[0].count_up());
  CHECK_FALSE(forms[1].count_up());
  CHECK(forms[1].differ_in_index());
  CHECK_FALSE(forms[2].differ_in_index());
  CHECK(fl::sample_ids().empty());
}
