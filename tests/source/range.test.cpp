// SPDX-License-Identifier: MIT
#include <feedline/source/range.hpp>

#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>
#include <feedline/stage/take.hpp>

#include <array>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <optional>
#include <ranges>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/refusing.hpp"
#include "support/throws_saying.hpp"

namespace fl = feedline;
using fl::test::collect;
using fl::test::count_to;
using fl::test::run_to_end;

namespace {

template <class Range>
using item_of = typename decltype(fl::from(std::declval<Range>()))::item;

static_assert(std::is_same_v<item_of<std::vector<std::string>>, std::string>);
static_assert(std::is_same_v<item_of<const std::vector<int>&>, int>);
static_assert(std::is_same_v<item_of<std::vector<bool>>, bool>);
static_assert(std::is_same_v<item_of<std::string>, char>);
static_assert(std::is_same_v<item_of<std::span<const float>>, float>);
static_assert(fl::source<fl::test::numbers>);
static_assert(std::is_same_v<item_of<fl::test::numbers>, int>);

template <class Range>
auto elements(Range&& range) {
  return collect((fl::from(std::forward<Range>(range)) | fl::prefetch(100)).finite());
}

/// Counts the copies of an object and of its copies.
class copied {
 public:
  explicit copied(int& copies) : copies_(&copies) {}

  copied(const copied& other) : copies_(other.copies_) { ++*copies_; }

  copied(copied&&) noexcept = default;

 private:
  int* copies_;
};

/// Its copy constructor can throw.
class shy {
 public:
  explicit shy(int number) : number_(number) {}

  shy(const shy& other) : number_(fl::test::refusing{{2}}(other.number_)) {}

  shy(shy&&) noexcept = default;

  int number() const { return number_; }

 private:
  int number_;
};

} // namespace

TEST_CASE("from yields the elements of any range in order") {
  CHECK(elements(std::vector{3, 1, 2}) == std::vector{3, 1, 2});
  CHECK(elements(std::list<std::string>{"a", "b"}) == std::vector<std::string>{"a", "b"});
  CHECK(elements(std::set{3, 1, 2}) == std::vector{1, 2, 3});
  CHECK(elements(std::vector{true, false}) == std::vector{true, false});
  CHECK(elements(std::views::iota(0, 100)) == count_to(100));
  const std::array<double, 2> array{0.5, 1.5};
  CHECK(elements(std::span(array)) == std::vector{0.5, 1.5});
}

TEST_CASE("the index of a sample of from is its position, in every epoch") {
  const auto p = fl::from(std::vector{7, 8, 9}) | fl::batch(2);
  std::vector<std::uint64_t> indices;
  std::vector<int> values;
  for (const auto& b : p.finite({.epochs = 2}))
    for (std::size_t i = 0; i < b.size(); ++i) {
      indices.push_back(b.indices()[i]);
      values.push_back(b.values()[i]);
    }
  CHECK(indices == std::vector<std::uint64_t>{0, 1, 2, 0, 1, 2});
  CHECK(values == std::vector{7, 8, 9, 7, 8, 9});
}

TEST_CASE("from keeps one copy of the range, which all copies and runs of the pipeline share") {
  int copies = 0;
  std::vector<copied> data;
  for (int i = 0; i < 10; ++i) data.emplace_back(copies);
  copies = 0;
  const auto p = fl::from(std::move(data)) | fl::map([](const copied&) { return 1; });
  const auto copy = p;
  CHECK(copies == 0);
  CHECK(collect(copy.finite()).size() == 10);
  CHECK(copies == 10); // the samples

  std::vector<int> numbers{1, 2};
  const auto q = fl::from(numbers) | fl::prefetch(2);
  numbers.clear();
  CHECK(collect(q.finite()) == std::vector{1, 2});
}

TEST_CASE("from takes a custom source, and two runs of it are independent") {
  const auto p = fl::from(fl::test::numbers(5)) | fl::prefetch(2);
  auto one = p.finite(), other = p.finite();
  CHECK(one.next() == 0);
  CHECK(one.next() == 1);
  CHECK(other.next() == 0);
  CHECK(collect(std::move(one)) == std::vector{2, 3, 4});
  CHECK(collect(std::move(other)) == std::vector{1, 2, 3, 4});
}

TEST_CASE("an element whose copy throws is a failure at its position, and from continues after it") {
  std::vector<shy> data;
  for (int i = 0; i < 5; ++i) data.emplace_back(i);
  const auto p = fl::from(std::move(data)) |
                 fl::map([](shy s, fl::context& c) { return std::pair(c.index, s.number()); });
  const auto result = run_to_end(p.finite());
  CHECK(result.items.size() == 2);
  REQUIRE(result.failed);
  CHECK(result.failed->stage == "from");
  CHECK(result.failed->message == "unlucky 2");

  const auto skipping = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK_FALSE(skipping.failed);
  CHECK(skipping.skipped.size() == 1);
  CHECK(skipping.items == std::vector<std::pair<std::uint64_t, int>>{{0, 0}, {1, 1}, {3, 3}, {4, 4}});
}

TEST_CASE("an error of a custom source keeps its position, and with skip the rest is yielded") {
  const auto p = fl::from(fl::test::numbers(10, {4})) | fl::prefetch(20);
  const auto result = run_to_end(p.finite());
  CHECK(result.items == count_to(4));
  REQUIRE(result.failed);
  CHECK(result.failed->stage == "numbers");
  CHECK(result.failed->index == fl::sample_id::no_index);
  CHECK(run_to_end(p.finite({.on_error = fl::on_error::skip})).items ==
        std::vector{0, 1, 2, 3, 5, 6, 7, 8, 9});
}

TEST_CASE("from continues with the next epoch in infinite mode, and its loop can be left early") {
  const auto p = fl::from(count_to(3)) | fl::prefetch(2);
  CHECK(collect(p.infinite(), 7) == std::vector{0, 1, 2, 0, 1, 2, 0});
}

TEST_CASE("an empty range yields nothing, and an infinite run over it is an error, not an endless wait") {
  const auto p = fl::from(std::vector<int>()) | fl::prefetch(2);
  CHECK(collect(p.finite({.epochs = 2})).empty());
  CHECK(fl::test::throws_saying<fl::pipeline_error>("no sample", [&] { collect(p.infinite()); }));
}

namespace {

struct position {
  const char* name;
  std::uint8_t ply; // followed by padding
  long double value;
};

template <class Range>
std::uint64_t fingerprint_of(const Range& range) {
  const auto p = fl::from(range);
  return p.source().fingerprint(p.source().extent());
}

} // namespace

TEST_CASE("from's fingerprint depends on the values of elements, not on their addresses") {
  using texts = std::vector<std::string>;
  const texts here{"a.jpg", "b.jpg"}, there = here, changed{"a.jpg", "c.jpg"};
  const auto check = [&](auto elements) {
    CHECK(fingerprint_of(elements(here)) == fingerprint_of(elements(there)));
    CHECK(fingerprint_of(elements(here)) != fingerprint_of(elements(changed)));
  };
  check([](const texts& t) { return t; });
  check([](const texts& t) { return std::vector<const char*>{t[0].c_str(), t[1].c_str()}; });
  check([](const texts& t) { return std::vector<std::string_view>(t.begin(), t.end()); });
  check([](const texts& t) { return std::vector<texts>{t}; });
  check([](const texts& t) { return std::vector<std::pair<int, std::string_view>>{{1, t[0]}, {2, t[1]}}; });
  check([](const texts& t) {
    std::vector<position> all(2);
    static int garbage = 0;
    garbage ^= 0xff;
    for (auto& p : all) std::memset(static_cast<void*>(&p), garbage, sizeof p);
    for (std::size_t i = 0; i < 2; ++i) {
      all[i].name = t[i].c_str();
      all[i].ply = 7;
      all[i].value = 1 / 3.0L;
    }
    return all;
  });
  check([](const texts& t) { return std::vector<long double>{t[1][0] / 3.0L}; });
  const std::array<int, 2> values{1, 2}, others{3, 4};
  CHECK(fingerprint_of(std::vector{&values[0], &values[1]}) ==
        fingerprint_of(std::vector{&others[0], &others[1]}));
  CHECK(fingerprint_of(std::vector<const char*>{nullptr}) != fingerprint_of(std::vector<const char*>{""}));
}

TEST_CASE("Views that end at a condition, and endless views, are read in order") {
  static const std::vector<int> numbers{1, 2, 3, 9, 4};
  const auto small = std::views::take_while(numbers, [](int n) { return n < 5; });
  CHECK(collect((fl::from(small) | fl::prefetch(2)).finite()) == std::vector{1, 2, 3});
  CHECK(collect((fl::from(std::views::iota(0)) | fl::take(5) | fl::prefetch(2)).finite()) == count_to(5));
}
