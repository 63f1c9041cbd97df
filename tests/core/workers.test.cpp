// SPDX-License-Identifier: MIT
#include <feedline/core/workers.hpp>

#include <cstddef>
#include <latch>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

const auto same = [](int n) { return n; };

} // namespace

TEST_CASE("There can be 1 to 256 workers") {
  for (const std::size_t count : {std::size_t{0}, std::size_t{257}, ~std::size_t{0}})
    CHECK(throws_saying<std::invalid_argument>("1 to 256 are possible",
                                               [&] { fl::map(same, fl::workers{count}); }));
  CHECK_THROWS_AS(fl::parallel(fl::workers{0}, fl::map(same) | fl::map(same)), std::invalid_argument);
  CHECK(collect((fl::from(numbers(500)) | fl::map(same, fl::workers{256})).finite()) == count_to(500));
}

TEST_CASE("As many items are worked on at once as there are workers") {
  const watchdog guard("all at once");
  for (const std::size_t workers : {2u, 64u}) {
    std::latch all(static_cast<std::ptrdiff_t>(workers));
    const auto p = fl::from(numbers(static_cast<int>(workers))) |
                   fl::map([&](int n) { return all.arrive_and_wait(), n; }, fl::workers{workers});
    CHECK(collect(p.finite()) == count_to(static_cast<int>(workers)));
  }
}

TEST_CASE("An item stays with its worker through a chain, and all stages of it run on the same threads") {
  const auto here = [](int) { return std::this_thread::get_id(); };
  const auto equal = [](std::thread::id id) { return id == std::this_thread::get_id(); };
  const auto p = fl::from(numbers(1000)) | fl::parallel(fl::workers{4}, fl::map(here) | fl::map(equal));
  for (const bool stayed : p.finite()) CHECK(stayed);
}

TEST_CASE("Each worker has a function of its own if it is made per worker") {
  std::mutex mutex;
  std::set<std::thread::id> makers;
  const auto factory = [&] {
    const std::lock_guard lock(mutex);
    makers.insert(std::this_thread::get_id());
    return [buffer = std::vector<int>(), maker = std::this_thread::get_id()](int n) mutable {
      buffer.assign(3, n);
      return maker == std::this_thread::get_id() ? buffer[2] : -1;
    };
  };
  const auto p = fl::from(numbers(300)) | fl::map(fl::per_worker(factory), fl::workers{5});
  CHECK(collect(p.finite()) == count_to(300));
  CHECK(makers.size() == 5);
}

TEST_CASE("unordered gives the same items, and epochs don't mix") {
  const auto p = fl::from(numbers(300)) | fl::map(same, fl::workers{8}, fl::unordered);
  auto items = collect(p.finite({.epochs = 3}));
  REQUIRE(items.size() == 900);
  for (std::size_t i = 0; i < items.size(); ++i)
    CHECK(static_cast<std::size_t>(items[i] / numbers::next_epoch) == i / 300);
  CHECK(std::set(items.begin(), items.end()).size() == 900);
}

TEST_CASE("unordered lets items pass one that takes long") {
  const watchdog guard("overtaking");
  std::latch others_done(1);
  const auto p = fl::from(numbers(20)) | fl::map(
                                             [&](int n) {
                                               if (n == 0) others_done.wait();
                                               return n;
                                             },
                                             fl::workers{2}, fl::unordered);
  auto loader = p.finite({.queue_capacity = 1});
  for (int i = 1; i < 10; ++i) CHECK(loader.next() != 0);
  others_done.count_down();
  int rest = 0;
  while (loader.next()) ++rest;
  CHECK(rest == 11);
}
