// SPDX-License-Identifier: MIT
// Batches in runs: epochs, workers, failures, ends.
#include <feedline/stage/batch.hpp>

#include <feedline/source/generate.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/filter.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/by_hand.hpp"
#include "support/catch.hpp"
#include "support/elements.hpp"
#include "support/outcome.hpp"
#include "support/refusing.hpp"

namespace fl = feedline;
using fl::test::collect;
using fl::test::count_to;
using fl::test::elements;
using fl::test::given_by;
using fl::test::run_to_end;
using fl::test::worker_counts;

namespace {

struct example {
  fl::tensor<float, 2, 3> image;
  std::array<std::int16_t, 5> moves;
  double weight;
};

example make_example(int i) {
  example e{{}, {}, i * 0.5};
  for (std::size_t k = 0; k < e.image.size(); ++k) e.image[k] = static_cast<float>(10 * i + int(k));
  e.moves.fill(static_cast<std::int16_t>(i));
  return e;
}

/// A tensor of `rows` rows of two, all of them `value`.
fl::tensor<int> rows_of(std::size_t rows, int value) {
  fl::tensor<int> t(fl::shape{rows, 2});
  std::fill(t.begin(), t.end(), value);
  return t;
}

/// Pairs of a tensor and a number; number 5's tensor is too long.
constexpr auto one_too_long = [](int i) { return std::pair(rows_of(i == 5 ? 3 : 2, i), i); };

template <class Loader>
std::vector<std::size_t> sizes(Loader loader) {
  std::vector<std::size_t> all;
  for (const auto& b : loader) all.push_back(b.size());
  return all;
}

using size_list = std::vector<std::size_t>;

} // namespace

TEST_CASE("with drop_last batch leaves out the last batch of each epoch, unless it is full") {
  const auto p = fl::from(count_to(10)) | fl::batch(4, {.drop_last = true});
  CHECK(sizes(p.finite({.epochs = 2})) == size_list{4, 4, 4, 4});
  CHECK(given_by(fl::batch(4, {.drop_last = true}), count_to(8)).size() == 2);
  CHECK(given_by(fl::batch(4, {.drop_last = true}), count_to(3)).empty());
}

TEST_CASE("batches hold samples of two epochs in infinite mode, but never in finite mode") {
  const auto p = fl::from(count_to(5)) | fl::batch(3);
  CHECK(sizes(p.finite({.epochs = 2})) == size_list{3, 2, 3, 2});
  const auto batches = collect(p.infinite(), 4);
  REQUIRE(batches.size() == 4);
  CHECK(elements(batches[1].values()) == std::vector{3, 4, 0});
  CHECK(elements(batches[3].values()) == std::vector{4, 0, 1});
  CHECK(batches[1].indices() == std::vector<std::uint64_t>{3, 4, 0});
  CHECK(batches[0].epoch() == 0);
  CHECK(batches[1].epoch() == 1);
  REQUIRE(batches[1].ids().size() == 3);
  CHECK(batches[1].ids()[1] == fl::sample_id{4, 0, 0});
  CHECK(batches[1].ids()[2] == fl::sample_id{0, 0, 1});
}

TEST_CASE("batches are the same to the byte with any number of workers") {
  for (const std::size_t workers : worker_counts)
    for (const std::size_t capacity : {0u, 1u}) {
      const auto p = fl::from(count_to(100)) | fl::map(make_example, fl::workers{workers}) | fl::batch(7);
      int next = 0;
      for (const auto& b : p.finite({.queue_capacity = capacity}))
        for (std::size_t row = 0; row < b.size(); ++row, ++next) {
          const example e = make_example(next);
          REQUIRE(b.indices()[row] == static_cast<std::uint64_t>(next));
          REQUIRE(std::equal(e.image.begin(), e.image.end(), b.get<&example::image>().at(row).begin()));
          REQUIRE(std::equal(e.moves.begin(), e.moves.end(), b.get<&example::moves>().at(row).begin()));
          REQUIRE(e.weight == b.get<&example::weight>()[row]);
        }
      REQUIRE(next == 100);
    }
}

TEST_CASE("an error leaves out its batch, and a skipped sample leaves no gap") {
  for (const std::size_t workers : worker_counts) {
    const auto p =
        fl::from(count_to(20)) | fl::map(fl::test::refusing{{6}}, fl::workers{workers}) | fl::batch(4);
    const auto result = run_to_end(p.finite());
    REQUIRE(result.items.size() == 1);
    CHECK(elements(result.items[0].values()) == std::vector{0, 1, 2, 3});
    REQUIRE(result.failed);
    CHECK(result.failed->index == 6);

    const auto skipping = run_to_end(p.finite({.on_error = fl::on_error::skip}));
    REQUIRE(skipping.items.size() == 5);
    CHECK(elements(skipping.items[1].values()) == std::vector{4, 5, 7, 8});
    CHECK(skipping.items[1].indices() == std::vector<std::uint64_t>{4, 5, 7, 8});
    CHECK(skipping.items[4].size() == 3);
  }
}

TEST_CASE("failures and gaps among numbers lose no other numbers") {
  constexpr int count = 20'000; // packets of many sizes
  const auto refuse_some = [](int i) {
    if (i % 1000 == 7 || i == count - 1) throw std::runtime_error("refused");
    return 2 * i;
  };
  std::vector<int> values;
  std::vector<fl::sample_id> ids;
  for (int i = 0; i < count; ++i)
    if (i % 1000 != 7 && i != count - 1 && i % 5 != 3) {
      values.push_back(2 * i);
      ids.push_back({static_cast<std::uint64_t>(i), 0, 0});
    }
  for (const std::size_t workers : worker_counts) {
    const auto p = fl::from(count_to(count)) | fl::map(refuse_some, fl::workers{workers}) |
                   fl::map([](int twice) { return twice; }) |
                   fl::filter([](int twice) { return twice / 2 % 5 != 3; }) |
                   fl::map([](int twice) { return twice; }, fl::workers{workers}) | fl::batch(96);
    auto loader = p.finite({.on_error = fl::on_error::skip});
    std::vector<int> got;
    std::vector<fl::sample_id> got_ids;
    for (const auto& b : loader) {
      got.insert(got.end(), b.values().begin(), b.values().end());
      got_ids.insert(got_ids.end(), b.ids().begin(), b.ids().end());
    }
    CHECK(got == values);
    CHECK(got_ids == ids);
    REQUIRE(loader.failures().size() == 21);
    CHECK(loader.failures()[1].index == 1007);
  }
}

TEST_CASE("a tensor of another shape is a failure of its sample") {
  const auto p = fl::from(count_to(10)) | fl::map(one_too_long) | fl::batch(4);
  const auto result = run_to_end(p.finite());
  REQUIRE(result.failed);
  CHECK(result.failed->stage == "batch");
  CHECK(result.failed->index == 5);
  CHECK(result.failed->message.find("[3, 2]") != std::string::npos);
  CHECK(result.failed->message.find("[2, 2]") != std::string::npos);
  CHECK(result.items.size() == 1);
}

TEST_CASE("with skip a tensor of another shape leaves no gap in its batch") {
  const auto p = fl::from(count_to(10)) | fl::map(one_too_long) | fl::batch(4);
  const auto result = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(result.skipped_indices() == std::vector<std::uint64_t>{5});
  REQUIRE(result.items.size() == 3);
  CHECK(elements(result.items[1].get<1>()) == std::vector{4, 6, 7, 8});
  CHECK(elements(result.items[2].get<1>()) == std::vector{9});
}

TEST_CASE("batches outlive a loop that is left early") {
  const auto p = fl::from(count_to(10)) | fl::map(make_example, fl::workers{2}) | fl::batch(3);
  const auto kept = collect(p.infinite(), 2);
  REQUIRE(kept.size() == 2);
  CHECK(kept[1].get<&example::image>().at(0)[0] == 30);
}

TEST_CASE("batch of an empty source yields nothing") {
  CHECK(sizes((fl::from(count_to(0)) | fl::batch(4)).finite({.epochs = 3})).empty());
}

namespace {

/// Emits the first batch of each epoch and needs no more.
struct first_batch {
  using output = fl::batch_of<int>;

  void operator()(output b, auto& emit) {
    emit(std::move(b));
    emit.enough();
  }
};

} // namespace

TEST_CASE("a stage after batch that has enough receives no more, with any stages upstream") {
  const auto two = fl::batch(4) | first_batch();
  const auto same = [](int i) { return i; };
  const auto numbers = fl::from(count_to(100'000));
  CHECK(collect((numbers | two).finite({.epochs = 2})).size() == 2);
  CHECK(collect((numbers | fl::prefetch(1000) | two).finite({.epochs = 2})).size() == 2);
  CHECK(collect((numbers | fl::prefetch(1000) | fl::map(same) | two).finite({.epochs = 2})).size() == 2);
  CHECK(collect((numbers | fl::map(same, fl::workers{2}) | two).finite({.epochs = 2})).size() == 2);
}

TEST_CASE("a batch that can't be made fails once, with all of its samples") {
  // Tensors of eight dimensions leave no room for the batch dimension.
  const auto p = fl::from(count_to(50)) | fl::map([](int i) {
                   return std::pair(i, fl::tensor<int>(fl::shape{1, 1, 1, 1, 1, 1, 1, 1}));
                 }) |
                 fl::batch(4, fl::padded{});
  const auto result = run_to_end(p.finite());
  CHECK(result.items.empty());
  REQUIRE(result.failed);
  CHECK(result.failed->index == 3);
  CHECK(result.failed->message.find("all 4 samples of the batch are lost") != std::string::npos);
  const auto skipping = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(skipping.items.empty());
  REQUIRE(skipping.skipped.size() == 13);
  CHECK(skipping.skipped.back().message.find("all 2 samples") != std::string::npos);
}

TEST_CASE(
    "a batch that is larger than the memory is a failure of the first sample, with any stages upstream") {
  const auto too_large = fl::batch(std::numeric_limits<std::size_t>::max() / 2);
  const auto same = [](int i) { return i; };
  const auto failure_of = [](auto loader) {
    const auto result = run_to_end(std::move(loader));
    REQUIRE(result.failed);
    CHECK(result.failed->stage == "batch");
    return result.failed->index;
  };
  CHECK(failure_of((fl::from(count_to(10)) | too_large).finite()) == 0);
  CHECK(failure_of((fl::from(count_to(10)) | fl::prefetch(4) | too_large).finite()) == 0);
  CHECK(failure_of((fl::from(count_to(10)) | fl::prefetch(4) | fl::map(same) | too_large).finite()) == 0);
  const auto generated = fl::generate([n = 0]() mutable { return std::optional(n++); });
  CHECK(failure_of((generated | too_large).finite()) == 0);
}
