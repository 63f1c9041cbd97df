// SPDX-License-Identifier: MIT
#include <feedline/stage/partition.hpp>

#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/outcome.hpp"

namespace fl = feedline;
using fl::test::collect;
using fl::test::count_to;

namespace {

struct keyed {
  int number;

  std::string key() const { return "photo-" + std::to_string(number); }
};

struct game {
  std::string id;
  int move;
};

std::vector<std::string> names(int count) {
  std::vector<std::string> all;
  for (int i = 0; i < count; ++i) all.push_back("photo-" + std::to_string(i));
  return all;
}

int number_of(const std::string& name) { return std::stoi(name.substr(name.find('-') + 1)); }

} // namespace

TEST_CASE("hashes are the same on every platform and in every process") {
  CHECK(fl::stable_hash("") == 0xf52a15e9a9b5e89b);
  CHECK(fl::stable_hash("photo-17") == 0xdb00081604b0f994);
  CHECK(fl::stable_hash(17) == 0x6434ff62b4e8edd1);
  CHECK(fl::stable_hash(17) == fl::stable_hash(std::uint8_t{17}));
  CHECK(fl::stable_hash(-1) == fl::stable_hash(std::int8_t{-1}));
}

TEST_CASE("each sample is in exactly one partition, and the sizes of partitions match their weights") {
  const auto all = names(20'000);
  std::vector<std::string> together;
  std::vector<double> sizes;
  for (const std::size_t part : {0u, 1u, 2u}) {
    const auto items = collect((fl::from(all) | fl::partition({80, 15, 5}, part)).finite());
    CHECK(std::is_sorted(items.begin(), items.end(),
                         [](const auto& x, const auto& y) { return number_of(x) < number_of(y); }));
    together.insert(together.end(), items.begin(), items.end());
    sizes.push_back(static_cast<double>(items.size()));
  }
  // Five standard deviations of a binomial distribution.
  CHECK(std::abs(sizes[0] - 16'000) < 5 * std::sqrt(20'000 * 0.8 * 0.2));
  CHECK(std::abs(sizes[1] - 3'000) < 5 * std::sqrt(20'000 * 0.15 * 0.85));
  CHECK(std::abs(sizes[2] - 1'000) < 5 * std::sqrt(20'000 * 0.05 * 0.95));
  auto sorted = all;
  std::sort(sorted.begin(), sorted.end());
  std::sort(together.begin(), together.end());
  CHECK(together == sorted);
}

TEST_CASE("a key's partition depends on the key alone") {
  const auto all = names(1000);
  const auto expected = collect((fl::from(all) | fl::partition({3, 1}, 1)).finite());
  REQUIRE_FALSE(expected.empty());
  auto other_way_round = all;
  std::reverse(other_way_round.begin(), other_way_round.end());
  auto items = collect(
      (fl::from(other_way_round) | fl::prefetch(3) | fl::partition({0.75, 0.25}, 1)).finite({.seed = 9}));
  std::reverse(items.begin(), items.end());
  CHECK(items == expected);

  std::vector<keyed> objects;
  for (int i = 0; i < 1000; ++i) objects.push_back({i});
  CHECK(collect((fl::from(objects) | fl::partition({3, 1}, 1) | fl::map(&keyed::key)).finite()) == expected);

  std::vector<game> games;
  for (const std::string& name : all) games.push_back({name, 1});
  const auto of_id = fl::partition({3, 1}, 1, [](const game& g) -> const std::string& { return g.id; });
  CHECK(collect((fl::from(games) | of_id | fl::map(&game::id)).finite()) == expected);
  const auto of_view = fl::partition({3, 1}, 1, [](const game& g) { return std::string_view(g.id); });
  CHECK(collect((fl::from(games) | of_view | fl::map(&game::id)).finite()) == expected);
}

TEST_CASE("items without a key are identified by their index") {
  const std::vector<double> same(1000, 0.5);
  const auto part = collect((fl::from(same) | fl::partition({1, 1}, 0)).finite({.epochs = 2}));
  CHECK(part.size() > 850);
  CHECK(part.size() < 1150);
  const auto numbers = collect((fl::from(count_to(1000)) | fl::partition({1, 1}, 0)).finite());
  CHECK(numbers.size() == part.size() / 2);
}

TEST_CASE("a partition doesn't change when a later one is split") {
  const auto part = [](std::vector<double> weights, std::size_t number) {
    return collect((fl::from(count_to(1000)) | fl::partition(weights, number)).finite());
  };
  CHECK(part({8, 2}, 0) == part({8, 1, 1}, 0));
  auto rest = part({8, 1, 1}, 1);
  for (const int n : part({8, 1, 1}, 2)) rest.push_back(n);
  std::sort(rest.begin(), rest.end());
  CHECK(part({8, 2}, 1) == rest);
  CHECK(part({1, 0, 1}, 1).empty());
  CHECK(part({1}, 0).size() == 1000);
}

TEST_CASE("invalid weights and partitions that don't exist are refused") {
  CHECK_THROWS_AS(fl::partition({}, 0), std::invalid_argument);
  CHECK_THROWS_AS(fl::partition({0, 0}, 0), std::invalid_argument);
  CHECK_THROWS_AS(fl::partition({1, -1}, 0), std::invalid_argument);
  CHECK_THROWS_AS(fl::partition({1, std::numeric_limits<double>::quiet_NaN()}, 0), std::invalid_argument);
  CHECK_THROWS_AS(fl::partition({1, std::numeric_limits<double>::infinity()}, 0), std::invalid_argument);
  CHECK_THROWS_AS(fl::partition({1, 1}, 2), std::invalid_argument);
}

TEST_CASE("a checkpoint of another partition or other weights is refused") {
  const auto part_of = [](const std::vector<double>& weights, std::size_t part) {
    return fl::from(count_to(1000)) | fl::partition(weights, part) | fl::prefetch(4);
  };
  auto loader = part_of({80, 20}, 0).infinite();
  loader.next();
  const fl::checkpoint taken = loader.checkpoint();
  CHECK(part_of({80, 20}, 0).infinite({.resume = taken}).next());
  CHECK_THROWS_AS(part_of({80, 20}, 1).infinite({.resume = taken}), std::invalid_argument);
  CHECK_THROWS_AS(part_of({50, 50}, 0).infinite({.resume = taken}), std::invalid_argument);
}
