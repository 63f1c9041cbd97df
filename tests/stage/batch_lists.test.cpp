// SPDX-License-Identifier: MIT
// Batches of data without a fixed shape: lists, padded tensors, whole items.
#include <feedline/stage/batch.hpp>

#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/by_hand.hpp"
#include "support/catch.hpp"
#include "support/elements.hpp"
#include "support/lifetimes.hpp"
#include "support/outcome.hpp"

namespace fl = feedline;
using fl::test::collect;
using fl::test::count_to;
using fl::test::elements;
using fl::test::given_by;

namespace {

enum class token : std::uint16_t { none = 9, word = 1 };

struct sentence {
  std::string text;
  std::vector<std::int64_t> tokens;
  int label;
};

template <class Mode, class T>
using batch_type = fl::stage_output_t<decltype(fl::batch(1, std::declval<Mode>())), T>;

static_assert(fl::stage_for<decltype(fl::batch(1)), sentence>);
static_assert(fl::stage_for<decltype(fl::batch(1, fl::padded{})), sentence>);
static_assert(fl::stage_for<decltype(fl::batch(1, fl::as_list)), std::unique_ptr<int>>);
static_assert(fl::stage_for<decltype(fl::batch(1)), std::vector<std::byte>>);
static_assert(std::equality_comparable<batch_type<fl::as_list_t, std::string>> &&
              !std::equality_comparable<batch_type<fl::as_list_t, sentence>>);
static_assert(!fl::stage_for<decltype(fl::batch(1)), std::vector<bool>>, "it has no bools to point at");
static_assert(std::is_same_v<decltype(std::declval<batch_type<fl::as_list_t, sentence>&>().values()),
                             std::vector<sentence>&>);
static_assert(std::is_same_v<decltype(std::declval<batch_type<fl::padded, std::string>&>().values().values),
                             fl::tensor<char>>);

/// A sentence of i letters and tokens.
sentence make_sentence(int i) {
  const auto n = static_cast<std::size_t>(i);
  return {std::string(n, static_cast<char>('a' + i)), std::vector<std::int64_t>(n, i), 10 * i};
}

fl::tensor<float> steps(std::size_t count, float value) {
  fl::tensor<float> t(fl::shape{count, 2});
  std::fill(t.begin(), t.end(), value);
  return t;
}

using texts = std::vector<std::string>;
using lengths = std::vector<std::int64_t>;

template <class Item, class Mode>
auto one_batch(std::vector<Item> items, Mode mode) {
  const std::size_t size = items.size();
  auto batches = given_by(fl::batch(size, mode), std::move(items));
  REQUIRE(batches.size() == 1);
  return std::move(batches[0]);
}

} // namespace

TEST_CASE("strings batch as lists, vectors as the elements of all samples and their offsets") {
  const auto p = fl::from(count_to(5)) | fl::map(make_sentence, fl::workers{2}) | fl::batch(3);
  auto batches = collect(p.finite());
  REQUIRE(batches.size() == 2);
  CHECK(batches[0].get<&sentence::text>() == texts{"", "b", "cc"});
  const auto& tokens = batches[0].get<&sentence::tokens>();
  CHECK(elements(tokens.values) == std::vector<std::int64_t>{1, 2, 2});
  CHECK(elements(tokens.offsets) == lengths{0, 0, 1, 3});
  CHECK(tokens.at(0).empty());
  CHECK(tokens.at(2).size() == 2);
  CHECK(tokens.at(2).data() == &tokens.values[1]);
  CHECK_THROWS_AS(tokens.at(3), std::out_of_range);
  CHECK(elements(batches[0].get<&sentence::label>()) == std::vector{0, 10, 20});
  CHECK(batches[1].get<&sentence::text>() == texts{"ddd", "eeee"});
  const texts taken = std::move(batches[1].get<&sentence::text>());
  CHECK(taken.size() == 2);
  CHECK(one_batch(texts{"x", "yz"}, fl::as_list).values() == texts{"x", "yz"});
}

TEST_CASE("padded pads strings and vectors to the longest of their batch and stores their lengths") {
  std::vector<sentence> sentences;
  for (int i = 0; i < 5; ++i) sentences.push_back(make_sentence(i));
  const auto batches = given_by(fl::batch(3, fl::padded{.value = -1}), std::move(sentences));
  REQUIRE(batches.size() == 2);
  const auto& tokens = batches[0].get<&sentence::tokens>();
  CHECK(tokens.values.shape() == fl::shape{3, 2});
  CHECK(elements(tokens.values) == std::vector<std::int64_t>{-1, -1, 1, -1, 2, 2});
  CHECK(elements(tokens.lengths) == lengths{0, 1, 2});
  CHECK(reinterpret_cast<std::uintptr_t>(tokens.values.data()) % 64 == 0);
  CHECK(elements(batches[0].get<&sentence::text>().lengths) == lengths{0, 1, 2});
  CHECK(elements(batches[0].get<&sentence::label>()) == std::vector{0, 10, 20});
  CHECK(batches[1].get<&sentence::tokens>().values.shape() == fl::shape{2, 4});
  CHECK(elements(batches[1].get<&sentence::tokens>().lengths) == lengths{3, 4});
}

TEST_CASE("padded pads with 0 by default, and makes an empty tensor from empty samples") {
  const auto text = one_batch(texts{"ab", "", "c"}, fl::padded{});
  CHECK(elements(text.values().values) == std::vector{'a', 'b', '\0', '\0', 'c', '\0'});
  const auto empty = one_batch(texts{"", ""}, fl::padded{});
  CHECK(empty.values().values.shape() == fl::shape{2, 0});
  CHECK(elements(empty.values().lengths) == lengths{0, 0});
}

TEST_CASE("padded pads with every type of number, and negative values wrap as in conversions between whole "
          "numbers") {
  const auto filler = [](auto number, double value) {
    using vector = std::vector<decltype(number)>;
    return one_batch(std::vector<vector>{{number}, {}}, fl::padded{value}).values().values[1];
  };
  CHECK(filler(std::uint8_t{}, -1) == 255);
  CHECK(filler(std::int8_t{}, -100) == -100);
  CHECK(filler(std::uint64_t{}, 0x1p63) == std::uint64_t{1} << 63);
  CHECK(filler(0.0f, 0.5) == 0.5f);
  CHECK(filler(token::word, 9) == token::none);
  CHECK(filler(std::byte{}, 255) == std::byte{255});
}

TEST_CASE("padded pads tensors in their first dimension") {
  std::vector<fl::tensor<float>> items;
  for (int i = 0; i < 3; ++i) items.push_back(steps(i == 1 ? 3 : 1, static_cast<float>(i)));
  const auto batch = one_batch(std::move(items), fl::padded{.value = 0.5});
  CHECK(batch.values().values.shape() == fl::shape{3, 3, 2});
  CHECK(elements(batch.values().lengths) == lengths{1, 3, 1});
  CHECK(elements(batch.values().values) ==
        std::vector<float>{0, 0, .5, .5, .5, .5, 1, 1, 1, 1, 1, 1, 2, 2, .5, .5, .5, .5});
}

TEST_CASE("a tensor that can't be padded to fit is refused, and the batch keeps nothing of it") {
  fl::test::by_hand<fl::tensor<float>, decltype(fl::batch(4, fl::padded{}))> batch(
      fl::batch(4, fl::padded{}));
  CHECK_THROWS_AS(batch.feed(fl::tensor<float>(fl::shape{})), std::invalid_argument);
  CHECK(batch.feed(steps(1, 1)).empty());
  CHECK_THROWS_AS(batch.feed(fl::tensor<float>(fl::shape{1, 3})), std::invalid_argument);
  CHECK_THROWS_AS(batch.feed(fl::tensor<float>(fl::shape{2})), std::invalid_argument);
  CHECK(batch.feed(steps(1, 2)).empty());
  const auto batches = batch.finish();
  REQUIRE(batches.size() == 1);
  CHECK(elements(batches[0].value.values().values) == std::vector<float>{1, 1, 2, 2});
}

TEST_CASE("lists and padded columns keep nothing of a sample that a later column refused") {
  using item = std::pair<std::vector<int>, fl::tensor<int>>;
  const auto batches_of = [](const auto& stage, int bad) {
    fl::test::by_hand<item, std::decay_t<decltype(stage)>> batch(stage);
    for (int i = 0; i < 5; ++i) {
      const auto length = static_cast<std::size_t>(i == bad ? 50 : i);
      item next(std::vector<int>(length, i), fl::shape{2, i == bad ? 3u : 4u});
      std::fill(next.second.begin(), next.second.end(), i);
      if (i == bad) CHECK_THROWS_AS(batch.feed(std::move(next)), std::invalid_argument);
      else CHECK(batch.feed(std::move(next)).empty());
    }
    return batch.finish();
  };
  for (int bad = 1; bad < 5; ++bad) {
    std::vector<int> expected;
    lengths expected_lengths;
    for (int i = 0; i < 5; ++i)
      if (i != bad) {
        expected.insert(expected.end(), static_cast<std::size_t>(i), i);
        expected_lengths.push_back(i);
      }
    const auto lists = batches_of(fl::batch(9), bad);
    REQUIRE(lists.size() == 1);
    CHECK(elements(lists[0].value.get<0>().values) == expected);
    CHECK(lists[0].value.get<1>().shape() == fl::shape{4, 2, 4});
    const auto padded = batches_of(fl::batch(9, fl::padded{}), bad);
    REQUIRE(padded.size() == 1);
    CHECK(padded[0].value.size() == 4);
    CHECK(elements(padded[0].value.get<0>().lengths) == expected_lengths);
    CHECK(padded[0].value.get<0>().values.shape() ==
          fl::shape{4, static_cast<std::size_t>(expected_lengths.back())});
    CHECK(elements(padded[0].value.get<1>().lengths) == lengths{2, 2, 2, 2});
  }
}

TEST_CASE("as_list batches whole items of any type, including move-only ones") {
  fl::test::lifetimes all;
  {
    const auto p = fl::from(count_to(7)) | fl::map([&](int i) { return fl::test::counted_item(all, i); }) |
                   fl::batch(3, fl::as_list, {.drop_last = true});
    auto batches = collect(p.finite());
    REQUIRE(batches.size() == 2);
    CHECK(all.live() == 6);
    CHECK(batches[1].values()[2].value() == 5);
    CHECK(batches[1].indices() == std::vector<std::uint64_t>{3, 4, 5});
    const fl::test::counted_item taken = std::move(batches[0].values()[0]);
    CHECK(taken.value() == 0);
  }
  CHECK(all.live() == 0);
}

TEST_CASE("as_list keeps structs whole") {
  const auto p = fl::from(count_to(3)) | fl::map(make_sentence) | fl::batch(2, fl::as_list);
  const auto batches = collect(p.infinite(), 2);
  REQUIRE(batches.size() == 2);
  CHECK(batches[1].values()[0].text == "cc");
  CHECK(batches[1].values()[1].text.empty());
  CHECK(batches[1].epoch() == 1);
}
