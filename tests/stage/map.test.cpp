// SPDX-License-Identifier: MIT
#include <feedline/stage/map.hpp>

#include <feedline/source/range.hpp>
#include <feedline/source/tar_sample.hpp>
#include <feedline/stage/filter.hpp>
#include <feedline/stage/prefetch.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "support/by_hand.hpp"
#include "support/catch.hpp"
#include "support/lifetimes.hpp"
#include "support/outcome.hpp"
#include "support/refusing.hpp"

namespace fl = feedline;
using fl::test::collect;
using fl::test::count_to;
using fl::test::given_by;
using fl::test::run_to_end;
using fl::test::worker_counts;

namespace {

int twice(int i) { return 2 * i; }

using mapping = std::function<int(int, fl::context&)>;

struct word {
  std::string text;

  std::size_t length() const { return text.size(); }
};

constexpr auto to_text = [](int i) { return std::to_string(i); };

static_assert(fl::stage_for<decltype(fl::map(to_text)), int>);
static_assert(!fl::stage_for<decltype(fl::map(to_text)), std::string>);
static_assert(std::is_same_v<fl::stage_output_t<decltype(fl::map(to_text)), int>, std::string>);
static_assert(std::is_same_v<fl::stage_output_t<decltype(fl::map(&word::text)), word>, std::string>);
static_assert(std::is_same_v<fl::stage_output_t<decltype(fl::map(&word::length)), word>, std::size_t>);
static_assert(
    std::is_same_v<fl::stage_output_t<decltype(fl::map(&word::text)), std::unique_ptr<word>>, std::string>);
static_assert(std::is_same_v<fl::stage_output_t<decltype(fl::map(twice)), short>, int>);
static_assert(
    fl::stage_for<decltype(fl::map([](std::unique_ptr<int> p) { return p; })), std::unique_ptr<int>>);
static_assert(fl::stage_for<decltype(fl::map([](int, fl::context& c) { return c.epoch; })), int>);

// A view of an item that owns its elements would dangle.
template <class Result, class Item>
constexpr bool may_return = fl::stage_for<decltype(fl::map([](const Item&) -> Result { throw 0; })), Item>;

static_assert(!may_return<std::string_view, std::string>);
static_assert(!may_return<std::span<const char>, std::string>);
static_assert(!may_return<std::vector<std::string_view>, std::string>);
static_assert(!may_return<std::string_view, std::vector<std::string>>);
static_assert(!may_return<std::span<int>, std::vector<int>>);
static_assert(!may_return<std::span<const int, 3>, std::array<int, 3>>);
static_assert(!may_return<std::span<const float>, fl::tensor<float, 2>>);
static_assert(!may_return<std::span<const std::byte>, std::vector<std::byte>>);
// Not so a view of something else, nor of an item that owns nothing.
static_assert(may_return<std::span<const float>, std::string>); // a row of a table of one's own
static_assert(may_return<std::string_view, int>);
static_assert(may_return<std::string_view, std::string_view>);
static_assert(may_return<std::vector<std::string_view>, std::vector<std::string_view>>);
static_assert(may_return<std::span<const std::byte>, fl::tar_sample>);
static_assert(may_return<std::string, std::string>);

/// The first random numbers of each of 100 samples, as drawn by a map with this number of workers.
std::vector<std::uint64_t> draws(std::size_t workers, std::uint64_t seed, std::uint32_t epochs = 1) {
  const auto p =
      fl::from(count_to(100)) | fl::map([](int, fl::context& c) { return c.random(); }, fl::workers{workers});
  return collect(p.finite({.seed = seed, .epochs = epochs}));
}

} // namespace

TEST_CASE("map emits what its function returns for each item") {
  const auto p = fl::from(std::vector{1, 2, 3}) | fl::map(to_text);
  CHECK(collect(p.finite()) == std::vector<std::string>{"1", "2", "3"});
}

TEST_CASE("map calls function pointers and pointers to members of the item or of what it points to") {
  CHECK(collect((fl::from(count_to(3)) | fl::map(twice)).finite()) == std::vector{0, 2, 4});
  const auto p = fl::from(std::vector<word>{{"a"}, {"bcd"}});
  CHECK(collect((p | fl::map(&word::text)).finite()) == std::vector<std::string>{"a", "bcd"});
  CHECK(collect((p | fl::map(&word::length)).finite()) == std::vector<std::size_t>{1, 3});
  std::vector<std::unique_ptr<word>> owners;
  owners.push_back(std::make_unique<word>(word{"efgh"}));
  CHECK(given_by(fl::map(&word::length), std::move(owners)) == std::vector<std::size_t>{4});
  CHECK(given_by(fl::map(&word::text), std::vector{std::make_shared<const word>(word{"i"})}) ==
        std::vector<std::string>{"i"});
}

TEST_CASE("map accepts a move-only function, and pipelines with it can be copied and run twice") {
  auto add = [amount = std::make_unique<int>(10)](int i) { return i + *amount; };
  const auto p = fl::from(count_to(3)) | fl::map(std::move(add), fl::workers{2});
  const auto copy = p;
  auto one = p.finite(), other = copy.finite();
  CHECK(collect(std::move(one)) == std::vector{10, 11, 12});
  CHECK(collect(std::move(other)) == std::vector{10, 11, 12});
}

TEST_CASE("map emits move-only items, and none of them leaks") {
  fl::test::lifetimes all;
  {
    const auto p = fl::from(count_to(1000)) |
                   fl::map([&](int i) { return fl::test::counted_item(all, i); }, fl::workers{2}) |
                   fl::map([](fl::test::counted_item item) { return item; });
    auto loader = p.finite();
    for (int i = 0; i < 1000; ++i) REQUIRE(loader.next().value().value() == i);
    CHECK_FALSE(loader.next());
    auto left = p.infinite();
    for (int i = 0; i < 1500; ++i) REQUIRE(left.next().value().value() == i % 1000);
  }
  CHECK(all.live() == 0);
}

TEST_CASE("map's context has index and epoch") {
  const auto p = fl::from(count_to(3)) | fl::map([](int, fl::context& c) {
                   return std::array<std::uint64_t, 3>{c.epoch, c.index, c.sub_index};
                 });
  const std::vector<std::array<std::uint64_t, 3>> expected{{0, 0, 0}, {0, 1, 0}, {0, 2, 0},
                                                           {1, 0, 0}, {1, 1, 0}, {1, 2, 0}};
  CHECK(collect(p.finite({.epochs = 2})) == expected);
  CHECK(collect(p.infinite(), 6) == expected);
}

TEST_CASE("map's random numbers depend on seed, epoch and sample, never on the number of workers") {
  const auto once = draws(1, 7, 2);
  CHECK(draws(2, 7, 2) == once);
  CHECK(draws(8, 7, 2) == once);
  CHECK(std::set(once.begin(), once.end()).size() == 200);
  CHECK(draws(1, 7) == std::vector(once.begin(), once.begin() + 100));
  CHECK(draws(1, 8) != draws(1, 7));
}

TEST_CASE("two maps draw different random numbers for the same sample") {
  const auto p = fl::from(count_to(1)) | fl::map([](int, fl::context& c) { return c.random(); }) |
                 fl::map([](std::uint64_t first, fl::context& c) { return std::pair(first, c.random()); });
  const auto numbers = collect(p.finite()).at(0);
  CHECK(numbers.first != numbers.second);
}

TEST_CASE(
    "per_worker makes a function for each worker, in its thread, and the function may change its state") {
  std::atomic<int> made = 0, foreign_calls = 0;
  {
    const auto p = fl::from(count_to(500)) |
                   fl::map(fl::per_worker([&] {
                             ++made;
                             return [&, home = std::this_thread::get_id(), scratch = 0](int i) mutable {
                               if (std::this_thread::get_id() != home) ++foreign_calls;
                               scratch = i;
                               return scratch + 1;
                             };
                           }),
                           fl::workers{4});
    const auto items = collect(p.finite());
    CHECK(items.size() == 500);
    CHECK(items.back() == 500);
  }
  CHECK(made == 4);
  CHECK(foreign_calls == 0);
}

TEST_CASE("map keeps the order with any number of workers and any queue capacity") {
  for (const std::size_t workers : worker_counts)
    for (const std::size_t capacity : {0u, 1u, 3u}) {
      const mapping same = [](int i, fl::context&) { return i; };
      const auto p = fl::from(count_to(3000)) | fl::map(same, fl::workers{workers});
      CHECK(collect(p.finite({.queue_capacity = capacity})) == count_to(3000));
    }
}

TEST_CASE("map waits for a slow item to emit it in its position") {
  std::latch second_done(1);
  const mapping slow_at_first = [&](int i, fl::context&) {
    if (i == 0) second_done.wait();
    if (i == 1) second_done.count_down();
    return i;
  };
  const auto p = fl::from(count_to(50)) | fl::map(slow_at_first, fl::workers{2});
  CHECK(collect(p.finite()) == count_to(50));
}

TEST_CASE("an unordered map emits items as they are finished, and each once") {
  std::latch ten_taken(10);
  const auto p = fl::from(count_to(10'000)) | fl::map(
                                                  [&](int i) {
                                                    if (i == 0) ten_taken.wait();
                                                    return i;
                                                  },
                                                  fl::workers{2}, fl::unordered);
  auto loader = p.finite();
  std::vector<int> items;
  while (const auto item = loader.next()) {
    items.push_back(*item);
    if (items.size() <= 10) ten_taken.count_down();
  }
  CHECK(std::find(items.begin(), items.begin() + 10, 0) == items.begin() + 10);
  std::sort(items.begin(), items.end());
  CHECK(items == count_to(10'000));
}

TEST_CASE("an unordered map doesn't mix epochs") {
  const auto p =
      fl::from(count_to(100)) |
      fl::map([](int i, fl::context& c) { return std::pair(c.epoch, i); }, fl::workers{8}, fl::unordered);
  auto items = collect(p.finite({.epochs = 20, .queue_capacity = 5}));
  REQUIRE(items.size() == 2000);
  for (std::uint32_t epoch = 0; epoch < 20; ++epoch) {
    const auto begin = items.begin() + epoch * 100;
    std::sort(begin, begin + 100);
    for (int i = 0; i < 100; ++i) REQUIRE(begin[i] == std::pair(epoch, i));
  }
}

TEST_CASE("parallel runs maps and filters one after another on the same worker") {
  for (const std::size_t workers : worker_counts) {
    const auto thread = [] { return std::hash<std::thread::id>()(std::this_thread::get_id()); };
    const auto p =
        fl::from(count_to(400)) |
        fl::parallel(fl::workers{workers},
                     fl::map([=](int i) { return std::pair(i, thread()); }) | fl::filter([](auto x) {
                       return x.first % 3 > 0;
                     }) | fl::map([=](auto x) { return std::pair(x.first, x.second == thread()); }));
    const auto items = collect(p.finite());
    REQUIRE(items.size() == 266);
    for (int k = 0; k < 266; ++k)
      REQUIRE(items[static_cast<std::size_t>(k)] == std::pair(k + k / 2 + 1, true));
  }
}

TEST_CASE("an error in a map's function arrives in the position of its item, with stage and origin") {
  for (const std::size_t workers : worker_counts) {
    const auto p = fl::from(fl::test::numbers(200)) |
                   fl::map(fl::test::refusing{{70, 71}}, fl::workers{workers}, fl::name{"check"});
    auto loader = p.finite();
    for (int i = 0; i < 70; ++i) REQUIRE(loader.next() == i);
    for (int times = 0; times < 2; ++times) {
      try {
        static_cast<void>(loader.next());
        FAIL("no error");
      } catch (const fl::pipeline_error& error) {
        CHECK(error.failure().stage == "map `check`");
        CHECK(error.failure().index == 70);
        CHECK(error.failure().origin == "number 70");
        CHECK(error.failure().message == "unlucky 70");
        REQUIRE(error.cause<fl::test::unlucky>());
        CHECK(error.cause<fl::test::unlucky>()->number == 70);
      }
    }
  }
}

TEST_CASE("on_error::skip leaves out the samples that fail in a map, up to the limit") {
  for (const std::size_t workers : worker_counts) {
    const mapping refuse = [](int i, fl::context&) { return fl::test::refusing{{0, 50, 51, 99}}(i); };
    const auto p = fl::from(count_to(100)) | fl::map(refuse, fl::workers{workers});
    const auto result = run_to_end(p.finite({.epochs = 2, .on_error = fl::on_error::skip}));
    CHECK_FALSE(result.failed);
    CHECK(result.items.size() == 192);
    CHECK(result.skipped_indices() == std::vector<std::uint64_t>{0, 50, 51, 99, 0, 50, 51, 99});
    CHECK(result.skipped.front().epoch == 0);
    CHECK(result.skipped.back().epoch == 1);

    const auto limited = run_to_end(p.finite({.on_error = fl::on_error::skip, .failure_limit = 2}));
    REQUIRE(limited.failed);
    CHECK(limited.failed->index == 51);
    CHECK(limited.items.size() == 49);
  }
}

TEST_CASE("a map's function may throw an object that isn't a std::exception") {
  const auto p = fl::from(count_to(3)) | fl::map([](int i) { return i == 1 ? throw 42 : i; });
  const auto result = run_to_end(p.finite());
  CHECK(result.items == std::vector{0});
  REQUIRE(result.failed);
  CHECK(result.failed->stage == "map");
  CHECK_FALSE(result.failed->message.empty());
}

TEST_CASE("a slow function of a map can see a stop in its context") {
  std::latch inside(2);
  const mapping slow = [&](int i, fl::context& c) {
    std::mutex m;
    std::condition_variable_any never;
    std::unique_lock lock(m);
    if (i < 2) inside.count_down();
    never.wait(lock, c.stop, [] { return false; });
    return i;
  };
  const auto p = fl::from(count_to(100)) | fl::map(slow, fl::workers{2});
  auto loader = p.finite();
  inside.wait();
  loader.stop();
  CHECK_FALSE(loader.next());
}

TEST_CASE("a loop over a map may be left early") {
  fl::test::lifetimes all;
  const auto p = fl::from(count_to(1000)) |
                 fl::map([&](int i) { return fl::test::counted_item(all, i); }, fl::workers{8});
  for (int times = 1; times <= 20; ++times) {
    int seen = 0;
    for (const auto& item : p.infinite()) {
      REQUIRE(item.value() == seen);
      if (++seen == times) break;
    }
    CHECK(all.live() == 0);
  }
}

TEST_CASE("a map of an empty source yields nothing") {
  const auto p = fl::from(std::vector<int>()) | fl::map(twice, fl::workers{8});
  CHECK(collect(p.finite()).empty());
  CHECK(collect(p.finite({.epochs = 3})).empty());
}

TEST_CASE("large items pass a long chain of serial maps and filters within a thread's stack") {
  using picture = std::array<float, 3 * 224 * 224>;
  const auto draw = fl::map([](int n) {
    picture p;
    p.fill(static_cast<float>(n));
    return p;
  });
  const auto brighten = fl::map([](picture p) {
    p[1] += 1;
    return p;
  });
  const auto all = fl::filter([](const picture& p) { return p[0] >= 0; });
  const auto p = fl::from(count_to(3)) | draw | brighten | all | brighten | brighten | all | brighten |
                 brighten | all | brighten | brighten | brighten |
                 fl::map([](const picture& made) { return made[0] * 100 + made[1]; }) | fl::prefetch(2);
  CHECK(collect(p.finite()) == std::vector<float>{8, 109, 210});
}
