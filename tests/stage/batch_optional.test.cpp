// SPDX-License-Identifier: MIT
// Batches of optional numbers: values and a mask.
#include <feedline/stage/batch.hpp>

#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/elements.hpp"
#include "support/outcome.hpp"

namespace fl = feedline;
using fl::test::count_to;
using fl::test::elements;

namespace {

struct graded {
  std::optional<std::int64_t> label;
  std::optional<float> score;
  int number;
};

/// Each third has no label, each second no score.
graded make_graded(int i) {
  graded g{std::nullopt, std::nullopt, i};
  if (i % 3 != 0) g.label = i;
  if (i % 2 == 0) g.score = 0.5f * static_cast<float>(i);
  return g;
}

template <class T>
constexpr bool has_shape = fl::stage_for<decltype(fl::batch(2)), T>;

static_assert(has_shape<graded> && has_shape<std::optional<bool>> &&
              has_shape<std::pair<std::optional<int>, graded>>);
static_assert(!has_shape<std::optional<std::string>> && !has_shape<std::optional<std::vector<int>>>);
static_assert(!has_shape<std::optional<std::optional<int>>>);
static_assert(std::is_same_v<decltype(std::declval<fl::batch_of<graded>&>().get<&graded::label>()),
                             fl::masked_tensor<std::int64_t>&>);
static_assert(
    std::is_same_v<decltype(std::declval<fl::batch_of<graded, fl::padded>&>().get<&graded::label>()),
                   fl::masked_tensor<std::int64_t>&>);
static_assert(
    std::is_same_v<decltype(std::declval<fl::batch_of<std::optional<int>, fl::as_list_t>&>().values()),
                   std::vector<std::optional<int>>&>);

} // namespace

TEST_CASE("Optional numbers become values, 0 where there is none, and a mask") {
  const auto p = fl::from(count_to(5)) | fl::map(make_graded) | fl::batch(3);
  const auto batches = fl::test::collect(p.finite());
  REQUIRE(batches.size() == 2);
  const auto& label = batches[0].get<&graded::label>();
  CHECK(elements(label.values) == std::vector<std::int64_t>{0, 1, 2});
  CHECK(elements(label.valid) == std::vector<bool>{false, true, true});
  CHECK(elements(batches[0].get<&graded::score>().values) == std::vector<float>{0, 0, 1});
  CHECK(elements(batches[0].get<&graded::score>().valid) == std::vector<bool>{true, false, true});
  CHECK(elements(batches[0].get<&graded::number>()) == std::vector<int>{0, 1, 2});
  const auto& last = batches[1].get<&graded::label>();
  CHECK(last.values.shape() == fl::shape{2});
  CHECK(elements(last.values) == std::vector<std::int64_t>{0, 4});
  CHECK(elements(last.valid) == std::vector<bool>{false, true});
}

TEST_CASE("A sample that is one optional number is a masked column by itself") {
  const auto halves = [](int i) { return i % 2 == 0 ? std::optional(i / 2) : std::nullopt; };
  const auto p = fl::from(count_to(4)) | fl::map(halves) | fl::batch(4);
  const auto batches = fl::test::collect(p.finite());
  REQUIRE(batches.size() == 1);
  CHECK(elements(batches[0].values().values) == std::vector<int>{0, 0, 1, 0});
  CHECK(elements(batches[0].values().valid) == std::vector<bool>{true, false, true, false});
}

TEST_CASE("Optional numbers are masked next to padded lists as well, and as_list keeps them") {
  using item = std::pair<std::string, std::optional<int>>;
  const auto make = [](int i) {
    return item(std::string(static_cast<std::size_t>(i), 'x'), i == 1 ? std::optional(7) : std::nullopt);
  };
  const auto items = fl::from(count_to(2)) | fl::map(make);
  const auto filled = fl::test::collect((items | fl::batch(2, fl::padded{})).finite());
  CHECK(elements(filled[0].get<1>().values) == std::vector<int>{0, 7});
  CHECK(elements(filled[0].get<1>().valid) == std::vector<bool>{false, true});
  const auto lists = fl::test::collect((items | fl::batch(2, fl::as_list)).finite());
  CHECK_FALSE(lists[0].values()[0].second);
}

TEST_CASE("A mask keeps nothing of a sample that another column refuses") {
  using item = std::pair<std::optional<int>, fl::tensor<int>>;
  const auto make = [](int i) { return item(i, fl::tensor<int>(fl::shape{i == 1 ? 2u : 1u})); };
  const auto p = fl::from(count_to(3)) | fl::map(make) | fl::batch(4);
  const auto result = fl::test::run_to_end(p.finite({.on_error = fl::on_error::skip}));
  REQUIRE(result.items.size() == 1);
  CHECK(elements(result.items[0].get<0>().values) == std::vector<int>{0, 2});
  CHECK(elements(result.items[0].get<0>().valid) == std::vector<bool>{true, true});
}
