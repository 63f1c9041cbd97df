// SPDX-License-Identifier: MIT
#include <feedline/stage/flat_map.hpp>

#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>
#include <feedline/stage/take.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <latch>
#include <memory>
#include <ranges>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/by_hand.hpp"
#include "support/catch.hpp"
#include "support/lifetimes.hpp"
#include "support/outcome.hpp"
#include "support/refusing.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using fl::test::collect;
using fl::test::count_to;
using fl::test::given_by;
using fl::test::run_to_end;
using fl::test::worker_counts;

namespace {

using numbers = std::vector<int>;
using texts = std::vector<std::string>;

constexpr auto split = [](const std::string& line) {
  texts words;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return words;
};
constexpr auto up_to = [](int n) { return count_to(n); };

template <class F, class In>
using output_of = fl::stage_output_t<decltype(fl::flat_map(std::declval<F>())), In>;

using view_items = decltype([](numbers& item) { return std::span(item); });
using give_owners = decltype([](int) { return std::vector<std::unique_ptr<int>>(); });
using give_bits = decltype([](int) { return std::vector<bool>(); });

static_assert(std::is_same_v<output_of<decltype(split), std::string>, std::string>);
static_assert(std::is_same_v<output_of<view_items, numbers>, int>);
static_assert(std::is_same_v<output_of<give_owners, int>, std::unique_ptr<int>>);
static_assert(std::is_same_v<output_of<give_bits, int>, bool>, "not a reference to a bit that is gone");
static_assert(!fl::stage_for<decltype(fl::flat_map([](int i) { return i; })), int>);
static_assert(!fl::stage_for<decltype(fl::flat_map(split)), int>);

/// A lazy range, endless or of `size` numbers, which counts the numbers that it makes.
class lazy_numbers {
 public:
  explicit lazy_numbers(std::atomic<int>& made, int size = -1) : made_(&made), size_(size) {}

  struct iterator {
    int operator*() const {
      ++*made;
      return at;
    }

    iterator& operator++() {
      ++at;
      return *this;
    }

    bool operator!=(const iterator& end) const { return at != end.at; }

    std::atomic<int>* made;
    int at;
  };

  iterator begin() const { return {made_, 0}; }

  iterator end() const { return {made_, size_}; }

 private:
  std::atomic<int>* made_;
  int size_;
};

} // namespace

TEST_CASE("flat_map emits every element of the range that its function returns") {
  const auto p = fl::from(texts{"a bc", "", "d e f"}) | fl::flat_map(split);
  CHECK(collect(p.finite()) == texts{"a", "bc", "d", "e", "f"});
  CHECK(collect(p.infinite(), 7) == texts{"a", "bc", "d", "e", "f", "a", "bc"});
}

TEST_CASE("flat_map keeps the order with any number of workers and any queue capacity") {
  numbers sizes, expected;
  for (int i = 0; i < 300; ++i) sizes.push_back(i * 7 % 11);
  for (const int size : sizes)
    for (int k = 0; k < size; ++k) expected.push_back(k);
  for (const std::size_t workers : worker_counts)
    for (const std::size_t capacity : {0u, 1u, 3u}) {
      const auto p = fl::from(sizes) | fl::flat_map(up_to, fl::workers{workers});
      CHECK(collect(p.finite({.queue_capacity = capacity})) == expected);
    }
}

TEST_CASE("flat_map on many workers restores the order of long ranges after a slow one") {
  std::latch later_one_done(1);
  const auto p = fl::from(count_to(4)) | fl::flat_map(
                                             [&](int i) {
                                               if (i == 0) later_one_done.wait();
                                               if (i == 1) later_one_done.count_down();
                                               return numbers(5000, i);
                                             },
                                             fl::workers{2});
  const auto items = collect(p.finite({.queue_capacity = 40})); // a packet holds far fewer than a range
  REQUIRE(items.size() == 20'000);
  CHECK(std::is_sorted(items.begin(), items.end()));
}

TEST_CASE("flat_map on a worker makes the items of a sample without a wait for earlier samples") {
  const fl::test::watchdog guard("a latch behind the last items");
  std::latch all_are_there(4);
  const auto items = [&](int n) {
    return std::views::iota(0, 50) | std::views::transform([&, n](int k) {
             if (k == 49) all_are_there.arrive_and_wait();
             return 100 * n + k;
           });
  };
  CHECK(collect((fl::from(count_to(4)) | fl::flat_map(items, fl::workers{4})).finite()).size() == 200);
}

TEST_CASE("flat_map's items fill packets completely before an epoch's end") {
  for (const std::size_t capacity : {6u, 12u, 18u, 24u, 36u})
    for (int count = 1; count < 100; ++count) {
      const auto p = fl::from(count_to(count)) |
                     fl::flat_map(
                         [](int i) {
                           return numbers{i, i};
                         },
                         fl::workers{1}) |
                     fl::map([](int i) { return i; });
      REQUIRE(collect(p.finite({.queue_capacity = capacity})).size() == 2 * static_cast<std::size_t>(count));
    }
}

TEST_CASE("flat_map accepts views of the item, which outlives them") {
  const std::vector<numbers> data{{1, 2}, {}, {3}};
  const auto scaled = [](const numbers& item) {
    return item | std::views::transform([&item](int i) { return i * int(item.size()); });
  };
  CHECK(given_by(fl::flat_map(scaled), data) == numbers{2, 4, 3});
  CHECK(collect((fl::from(data) | fl::flat_map(view_items())).finite()) == numbers{1, 2, 3});
  const auto item_itself = [](numbers& item) -> numbers& { return item; };
  CHECK(given_by(fl::flat_map(item_itself), data) == numbers{1, 2, 3});
}

TEST_CASE("flat_map moves the elements out of a container that is returned by value") {
  fl::test::lifetimes all;
  {
    const auto p = fl::from(count_to(20)) | fl::flat_map(
                                                [&](int n) {
                                                  std::vector<fl::test::counted_item> made;
                                                  for (int k = 0; k < n; ++k) made.emplace_back(all, k);
                                                  return made;
                                                },
                                                fl::workers{2});
    auto loader = p.finite();
    for (int n = 0; n < 19; ++n)
      for (int k = 0; k < n; ++k) REQUIRE(loader.next().value().value() == k);
  }
  CHECK(all.live() == 0);
}

TEST_CASE("flat_map doesn't empty a container that is returned by reference or through a view") {
  texts kept{std::string(40, 'a'), std::string(40, 'b')};
  const texts before = kept;
  const auto by_reference = [&](int) -> texts& { return kept; };
  CHECK(given_by(fl::flat_map(by_reference), count_to(2)).size() == 4);
  CHECK(kept == before);
  const auto by_span = [&](int) { return std::span(kept); };
  CHECK(given_by(fl::flat_map(by_span), count_to(2)).size() == 4);
  CHECK(kept == before);
  const auto by_view = [&](int) { return std::views::reverse(kept); };
  CHECK(given_by(fl::flat_map(by_view), count_to(2)).size() == 4);
  CHECK(kept == before);
}

TEST_CASE("flat_map emits the bits of a vector<bool> as bools") {
  const auto bits = fl::flat_map([](int i) { return std::vector{i == 0, true}; });
  CHECK(given_by(bits, count_to(2)) == std::vector{true, true, false, true});
}

TEST_CASE("flat_map reads an endless range only as far as its items are needed") {
  for (const std::size_t workers : worker_counts) {
    std::atomic<int> made = 0;
    const auto p = fl::from(count_to(3)) |
                   fl::flat_map([&](int) { return lazy_numbers(made); }, fl::workers{workers}) | fl::take(10);
    CHECK(collect(p.finite({.epochs = 2, .queue_capacity = 4})) ==
          numbers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  }
}

TEST_CASE("flat_map reads from a huge range only what queues have room for") {
  for (const std::size_t workers : worker_counts) {
    std::atomic<int> made = 0;
    const auto p = fl::from(count_to(100)) |
                   fl::flat_map([&](int) { return lazy_numbers(made, 100'000'000); }, fl::workers{workers});
    CHECK(collect(p.infinite({.queue_capacity = 8}), 10).size() == 10);
    CHECK(made <= 10 + 2 * 8 + 8 * int(workers)); // taken, in the queue and with the consumer, in hand
  }
}

TEST_CASE("a stop ends a flat_map inside an endless range") {
  std::atomic<int> made = 0;
  const auto p =
      fl::from(count_to(3)) | fl::flat_map([&](int) { return lazy_numbers(made); }, fl::workers{2});
  auto loader = p.infinite();
  CHECK(loader.next() == 0);
  loader.stop();
  CHECK_FALSE(loader.next());
}

TEST_CASE("the items that flat_map makes from one sample differ in their sub_index") {
  const auto p = fl::from(count_to(3)) | fl::flat_map(up_to);
  const auto batches = collect((p | fl::batch(10)).finite());
  REQUIRE(batches.size() == 1);
  const std::vector<fl::sample_id> ids(batches[0].ids().begin(), batches[0].ids().end());
  CHECK(ids == std::vector<fl::sample_id>{{1, 0, 0}, {2, 0, 0}, {2, 1, 0}});

  // After a second flat_map the sub_indices are other numbers, but still differ.
  const auto again = fl::from(numbers{30}) | fl::flat_map(up_to) |
                     fl::flat_map([](int) { return count_to(30); }) |
                     fl::map([](int, fl::context& c) { return std::pair(c.sub_index, c.random()); });
  const auto seen = collect(again.finite());
  std::set<std::uint64_t> parts;
  std::set<std::uint64_t> draws;
  for (const auto& [part, draw] : seen) {
    parts.insert(part);
    draws.insert(draw);
  }
  CHECK(parts.size() == 900);
  CHECK(draws.size() == 900);
  CHECK(collect(again.finite()) == seen);
}

TEST_CASE("an error in flat_map's function arrives in the position of its item") {
  for (const std::size_t workers : worker_counts) {
    const auto p = fl::from(count_to(50)) |
                   fl::flat_map([check = fl::test::refusing{{7}}](int i) { return numbers(3, check(i)); },
                                fl::workers{workers}, fl::name{"read"});
    const auto result = run_to_end(p.finite());
    CHECK(result.items.size() == 21);
    REQUIRE(result.failed);
    CHECK(result.failed->stage == "flat_map `read`");
    CHECK(result.failed->index == 7);

    const auto skipping = run_to_end(p.finite({.on_error = fl::on_error::skip}));
    CHECK(skipping.items.size() == 147);
    CHECK(skipping.skipped_indices() == std::vector<std::uint64_t>{7});
  }
}

TEST_CASE("the elements before an error in the middle of a range are emitted") {
  for (const std::size_t workers : worker_counts) {
    const auto p =
        fl::from(count_to(3)) | fl::flat_map(
                                    [](int i) {
                                      return std::views::iota(0, 4) | std::views::transform([i](int k) {
                                               return fl::test::refusing{{12}}(10 * i + k);
                                             });
                                    },
                                    fl::workers{workers});
    const auto result = run_to_end(p.finite());
    CHECK(result.items == numbers{0, 1, 2, 3, 10, 11});
    REQUIRE(result.failed);
    CHECK(result.failed->index == 1);

    const auto skipping = run_to_end(p.finite({.on_error = fl::on_error::skip}));
    CHECK(skipping.items == numbers{0, 1, 2, 3, 10, 11, 20, 21, 22, 23});
    CHECK(skipping.skipped_indices() == std::vector<std::uint64_t>{1});
  }
}

TEST_CASE("several flat_maps and maps on the same workers keep the order, unless they are unordered") {
  const auto stages = [] {
    return fl::flat_map(up_to) | fl::map([](int i) { return i % 4; }) | fl::flat_map(up_to);
  };
  const auto source = fl::from(count_to(60));
  auto expected = collect((source | stages()).finite());
  CHECK(expected.size() > 2000);
  for (const std::size_t workers : worker_counts)
    CHECK(collect((source | fl::parallel(fl::workers{workers}, stages())).finite()) == expected);
  auto items = collect((source | fl::parallel(fl::workers{4}, stages(), fl::unordered)).finite());
  std::sort(items.begin(), items.end());
  std::sort(expected.begin(), expected.end());
  CHECK(items == expected);
}

TEST_CASE("an unordered flat_map emits every element once") {
  const auto p = fl::from(count_to(200)) | fl::flat_map(up_to, fl::workers{4}, fl::unordered);
  auto items = collect(p.finite());
  auto expected = collect((fl::from(count_to(200)) | fl::flat_map(up_to)).finite());
  std::sort(items.begin(), items.end());
  std::sort(expected.begin(), expected.end());
  CHECK(items == expected);
}

TEST_CASE("flat_map of an empty source, and of empty ranges, yields nothing") {
  CHECK(collect((fl::from(numbers{}) | fl::flat_map(up_to)).finite()).empty());
  CHECK(
      collect((fl::from(numbers{0, 0}) | fl::flat_map(up_to, fl::workers{2})).finite({.epochs = 2})).empty());
}

namespace {

/// A view whose elements are const if it is const, as in containers.
struct deep_view {
  std::vector<std::string>* seen;

  auto begin() { return seen->begin(); }

  auto end() { return seen->end(); }

  auto begin() const { return seen->cbegin(); }

  auto end() const { return seen->cend(); }
};

/// The same, but it owns its elements.
struct own_container : std::unique_ptr<std::vector<std::unique_ptr<int>>> {
  auto begin() { return (*this)->begin(); }

  auto end() { return (*this)->end(); }

  auto begin() const { return std::as_const(**this).begin(); }

  auto end() const { return std::as_const(**this).end(); }
};

} // namespace

TEST_CASE("flat_map copies the elements of a view that is const all through, and moves those that can't be "
          "copied") {
  std::vector<std::string> shared{"a text that is too long for its object", "another text that is too long"};
  const auto seen = shared;
  const auto views =
      fl::from(count_to(2)) | fl::flat_map([&](int) { return deep_view{&shared}; }) | fl::prefetch(2);
  CHECK(collect(views.finite()).size() == 4);
  CHECK(shared == seen);
  const auto own = fl::from(count_to(2)) | fl::flat_map([](int n) {
                     own_container c{std::make_unique<std::vector<std::unique_ptr<int>>>()};
                     c->push_back(std::make_unique<int>(n));
                     return c;
                   }) |
                   fl::map([](const std::unique_ptr<int>& n) { return *n; }) | fl::prefetch(2);
  CHECK(collect(own.finite()) == count_to(2));
}
