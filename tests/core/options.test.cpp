// SPDX-License-Identifier: MIT
#include <feedline/core/options.hpp>

#include <cstdint>
#include <stop_token>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"

namespace fl = feedline;
using namespace feedline::test;

TEST_CASE("Options not given are: seed 0, one pass, fail at the first error") {
  const fl::finite_options finite;
  CHECK_FALSE(finite.seed);
  CHECK(finite.epochs == 1);
  CHECK(finite.on_error == fl::on_error::fail);
  CHECK(finite.failure_limit == fl::default_failure_limit);
  CHECK_FALSE(finite.stop.stop_possible());
  const fl::infinite_options infinite;
  CHECK_FALSE(infinite.seed);
  CHECK(infinite.on_error == fl::on_error::fail);
  CHECK(infinite.failure_limit == fl::default_failure_limit);
  CHECK_FALSE(infinite.stop.stop_possible());
}

TEST_CASE("Finite runs make as many passes as asked for, also none") {
  const auto p = fl::from(numbers(2)) | fl::prefetch(2);
  CHECK(collect(p.finite({.epochs = 0})).empty());
  CHECK(collect(p.finite()) == std::vector<int>{0, 1});
  CHECK(collect(p.finite({.epochs = 3})).size() == 6);
}

TEST_CASE("Equal seeds give equal runs, other seeds others, and each epoch has an order of its own") {
  const auto p = fl::from(numbers(200)) |
                 fl::map([](int n) { return n % numbers::next_epoch; }, fl::workers{2}) |
                 fl::shuffle({.capacity = 50});
  const auto once = collect(p.finite({.seed = 3, .epochs = 2}));
  CHECK(collect(p.finite({.seed = 3, .epochs = 2, .queue_capacity = 3})) == once);
  CHECK_FALSE(collect(p.finite({.seed = 4, .epochs = 2})) == once);
  CHECK_FALSE(std::vector(once.begin(), once.begin() + 200) == std::vector(once.begin() + 200, once.end()));
  CHECK(collect(p.infinite({.seed = 3}), 300) == collect(p.infinite({.seed = 3, .queue_capacity = 1}), 300));
}
