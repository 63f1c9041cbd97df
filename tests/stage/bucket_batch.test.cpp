// SPDX-License-Identifier: MIT
#include <feedline/stage/bucket_batch.hpp>

#include <feedline/source/global_shuffle.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/shuffle.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/by_hand.hpp"
#include "support/catch.hpp"
#include "support/elements.hpp"
#include "support/leave_and_resume.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

using texts = std::vector<std::string>;
using lists = std::vector<texts>;

/// The length of a number is the number.
struct itself {
  unsigned operator()(const int& n) const {
    if (n < 0) throw unlucky(n);
    return static_cast<unsigned>(n);
  }
};

template <class T, class... Arguments>
constexpr bool has_length =
    fl::stage_for<decltype(fl::bucket_batch({.batch_size = 2}, std::declval<Arguments>()...)), T>;

static_assert(has_length<std::string> && has_length<std::vector<int>> && has_length<fl::tensor<float>>);
static_assert(!has_length<int> && has_length<int, itself> && !has_length<std::string, itself>);
static_assert(has_length<int, fl::as_list_t, itself> && !has_length<std::unique_ptr<std::string>, itself>);
static_assert(!has_length<int, int (*)(int)>, "a length has no sign");
static_assert(std::is_same_v<
              fl::stage_output_t<decltype(fl::bucket_batch({.batch_size = 2}, fl::padded{})), std::string>,
              fl::batch_of<std::string, fl::padded>>);

/// The lengths in each batch made from samples of these lengths.
std::vector<std::vector<int>> batches_of(const fl::bucket_batch_options& options, std::vector<int> lengths) {
  std::vector<std::vector<int>> batches;
  for (const auto& b : given_by(fl::bucket_batch(options, itself()), std::move(lengths)))
    batches.push_back(elements(b.values()));
  return batches;
}

using numbers_in_batches = std::vector<std::vector<int>>;

texts text_of_length(std::size_t count, fl::random_generator random) {
  texts all;
  for (std::size_t i = 0; i < count; ++i)
    all.push_back(std::string(static_cast<std::size_t>(random.below(20)), 'x') + std::to_string(i));
  return all;
}

} // namespace

TEST_CASE("bucket_batch needs batch_size or max_tokens, and boundaries that rise") {
  CHECK_THROWS_AS(fl::bucket_batch({.boundaries = {1, 2}}), std::invalid_argument);
  CHECK_THROWS_AS(fl::bucket_batch({.boundaries = {1, 1}, .batch_size = 1}), std::invalid_argument);
  CHECK_THROWS_AS(fl::bucket_batch({.boundaries = {2, 1}, .max_tokens = 1}, fl::padded{}),
                  std::invalid_argument);
  CHECK_NOTHROW(fl::bucket_batch({.batch_size = 1}));
}

TEST_CASE("bucket_batch gathers samples by length, and at the end emits what is left bucket by bucket") {
  const fl::bucket_batch_options options{.boundaries = {2, 5}, .batch_size = 3};
  CHECK(batches_of(options, {9, 1, 3, 2, 5, 6, 0, 4, 1, 7}) ==
        numbers_in_batches{{1, 2, 0}, {3, 5, 4}, {9, 6, 7}, {1}});
  CHECK(batches_of(options, {9, 1, 3}) == numbers_in_batches{{1}, {3}, {9}});
  CHECK(batches_of(options, {}).empty());
  CHECK(batches_of({.batch_size = 2}, {9, 1, 3}) == numbers_in_batches{{9, 1}, {3}});
  CHECK(batches_of({.boundaries = {2}, .batch_size = 1}, {9, 1, 3}) == numbers_in_batches{{9}, {1}, {3}});
}

TEST_CASE("with drop_last the samples left at the end are dropped") {
  CHECK(batches_of({.boundaries = {2}, .batch_size = 2, .drop_last = true}, {1, 2, 3, 1}) ==
        numbers_in_batches{{1, 2}});
}

TEST_CASE("no batch has more than max_tokens, unless it holds a single sample") {
  CHECK(batches_of({.max_tokens = 12}, {3, 4, 4, 3, 6, 5, 13, 1}) ==
        numbers_in_batches{{3, 4, 4}, {3, 6}, {5}, {13}, {1}});
  CHECK(batches_of({.max_tokens = 12}, {13, 14, 12, 12}) == numbers_in_batches{{13}, {14}, {12}, {12}});
  CHECK(batches_of({.batch_size = 2, .max_tokens = 12}, {1, 1, 1, 7, 2}) ==
        numbers_in_batches{{1, 1}, {1}, {7}, {2}});
  CHECK(batches_of({.max_tokens = 4}, {0, 0, 0, 0, 0}) == numbers_in_batches{{0, 0, 0, 0}, {0}});

  const fl::bucket_batch_options options{.boundaries = {10, 20, 50}, .batch_size = 7, .max_tokens = 100};
  fl::random_generator random(1);
  std::vector<int> lengths, batched;
  for (int i = 0; i < 2000; ++i) lengths.push_back(static_cast<int>(random.below(80)));
  for (const auto& batch : batches_of(options, lengths)) {
    const int longest = *std::max_element(batch.begin(), batch.end());
    CHECK((batch.size() == 1 || static_cast<std::size_t>(longest) * batch.size() <= 100));
    CHECK(batch.size() <= 7);
    batched.insert(batched.end(), batch.begin(), batch.end());
  }
  std::sort(lengths.begin(), lengths.end());
  std::sort(batched.begin(), batched.end());
  CHECK(batched == lengths);
}

TEST_CASE("bucket_batch makes lists and padded tensors, and lists the samples of a batch") {
  const texts words{"aaa", "b", "cccc", "dd"};
  auto padded =
      given_by(fl::bucket_batch({.boundaries = {2}, .batch_size = 2}, fl::padded{.value = '.'}), words);
  REQUIRE(padded.size() == 2);
  CHECK(padded[0].values().values.shape() == fl::shape{2, 4});
  CHECK(elements(padded[0].values().lengths) == std::vector<std::int64_t>{3, 4});
  CHECK(padded[0].indices() == std::vector<std::uint64_t>{0, 2});
  CHECK(elements(padded[1].values().values) == std::vector{'b', '.', 'd', 'd'});

  std::vector<std::unique_ptr<int>> pointers;
  for (int i = 0; i < 4; ++i) pointers.push_back(std::make_unique<int>(i));
  const auto as_lists =
      given_by(fl::bucket_batch({.boundaries = {1}, .batch_size = 2}, fl::as_list,
                                [](const std::unique_ptr<int>& p) { return *p % 2 == 0 ? 0u : 2u; }),
               std::move(pointers));
  REQUIRE(as_lists.size() == 2);
  CHECK(*as_lists[0].values()[1] == 2);
  CHECK(*as_lists[1].values()[1] == 3);
}

TEST_CASE(
    "an exception of the length function is a failure of its sample, and so is a shape that doesn't fit") {
  const auto p =
      fl::from(std::vector{1, -2, 3, 1}) | fl::bucket_batch({.boundaries = {2}, .batch_size = 2}, itself());
  const auto result = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  REQUIRE(result.items.size() == 2);
  CHECK(elements(result.items[0].values()) == std::vector{1, 1});
  REQUIRE(result.skipped.size() == 1);
  CHECK(result.skipped[0].stage == "bucket_batch");
  CHECK(result.skipped[0].index == 1);

  // A refused sample doesn't end the batch that it doesn't fit into.
  using item = std::pair<fl::tensor<int>, std::size_t>;
  const auto stage =
      fl::bucket_batch({.max_tokens = 4}, fl::padded{}, [](const item& i) { return i.second; });
  by_hand<item, std::remove_const_t<decltype(stage)>> running(stage);
  CHECK(running.feed({fl::tensor<int>(fl::shape{2}), 2}).empty());
  CHECK_THROWS_AS(running.feed({fl::tensor<int>(fl::shape{}), 4}), std::invalid_argument);
  CHECK(running.feed({fl::tensor<int>(fl::shape{1}), 1}).size() == 1);
}

TEST_CASE("in finite mode no batch holds samples of two epochs, in infinite mode buckets keep theirs") {
  const auto p =
      fl::from(texts{"a", "bbb", "c", "ddd", "e"}) | fl::bucket_batch({.boundaries = {2}, .batch_size = 2});
  std::vector<lists::value_type> batches;
  for (const auto& b : p.finite({.epochs = 2})) batches.push_back(b.values());
  CHECK(batches == lists{{"a", "c"}, {"bbb", "ddd"}, {"e"}, {"a", "c"}, {"bbb", "ddd"}, {"e"}});
  batches.clear();
  auto loader = p.infinite();
  for (int i = 0; i < 5; ++i) batches.push_back(loader.next().value().values());
  CHECK(batches == lists{{"a", "c"}, {"bbb", "ddd"}, {"e", "a"}, {"bbb", "ddd"}, {"c", "e"}});
}

TEST_CASE("Resumed: buckets downstream of a buffer and workers") {
  leave_and_resume("bucket_batch", 40, [](draw& d, const circumstances& c) {
    fl::bucket_batch_options options{.boundaries = {d(1, 5), d(6, 12), d(13, 18)},
                                     .batch_size = d.coin() ? d(1, 9) : 0,
                                     .drop_last = d.coin()};
    if (options.batch_size == 0 || d.coin()) options.max_tokens = d(10, 60);
    return fl::from(text_of_length(d(1, 150), fl::random_generator(d(1, 1000)))) | fl::global_shuffle() |
           fl::map(
               [](std::string s, fl::context& context) {
                 if (context.index % 40 == 11) throw unlucky(11);
                 return s + std::string(static_cast<std::size_t>(context.random.below(3)), '.');
               },
               fl::workers{c.workers}) |
           fl::shuffle({.capacity = d(1, 30)}) | fl::bucket_batch(options, fl::as_list);
  });
}
