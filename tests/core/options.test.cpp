// SPDX-License-Identifier: MIT
#include <feedline/core/options.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/rounds.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

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

TEST_CASE("Finite runs make as many passes as asked for, and none is refused") {
  const auto p = fl::from(numbers(2)) | fl::prefetch(2);
  CHECK(throws_saying<std::invalid_argument>("a finite run over 0 epochs would give nothing",
                                             [&] { p.finite({.epochs = 0}); }));
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

TEST_CASE("A size that was negative is refused as what it was, wherever it is given") {
  const auto minus_one = static_cast<std::size_t>(-1);
  const auto refused = [](const std::string& what, auto make) {
    INFO(what);
    CHECK(throws_saying<std::invalid_argument>(what + " is -1, but can't be negative", make));
  };
  const auto same = [](int n) { return n; };
  const auto row = [](int n, fl::batch_slot<int>& slot) { slot.value() = n; };
  refused("prefetch: the number of items", [&] { fl::prefetch(minus_one); });
  refused("take: the number of items", [&] { fl::take(minus_one); });
  refused("skip: the number of items", [&] { fl::skip(minus_one); });
  refused("batch: the size", [&] { fl::batch(minus_one); });
  refused("batch_into: the size", [&] { fl::batch_into<int>(minus_one, row); });
  refused("bucket_batch: the size", [&] { fl::bucket_batch({.size = minus_one}); });
  refused("bucket_batch: the number of tokens", [&] { fl::bucket_batch({.tokens = minus_one}); });
  refused("bucket_batch: a bound", [&] { fl::bucket_batch({.bounds = {4, minus_one}, .size = 4}); });
  refused("with_replacement: the number of samples", [&] { fl::with_replacement({.samples = minus_one}); });
  refused("cache: the memory", [&] { fl::cache({.memory = minus_one}); });
  refused("cache: the number of bytes", [&] { fl::cache({.directory = "/nowhere", .bytes = minus_one}); });
  refused("interleave: the number of files", [&] { fl::interleave(minus_one); });
  refused("records: the size of a record", [&] { fl::records({"none"}, minus_one); });
  refused("shuffle: the capacity", [&] { fl::shuffle({.capacity = minus_one}); });
  refused("shuffle: the min_fill", [&] { fl::shuffle({.capacity = 4, .min_fill = minus_one}); });
  refused("shuffle: the capacity", [&] { fl::concurrent_shuffle_buffer<int>({.capacity = minus_one}); });
  refused("lines: the longest line", [&] { fl::lines({"none"}, {.longest = minus_one}); });
  refused("cache: the items_per_sample", [&] { fl::cache({.memory = 1000, .items_per_sample = minus_one}); });
  refused("a queue's capacity", [&] { fl::spsc_queue<int> queue(minus_one); });
  refused("a queue's capacity", [&] { fl::mpmc_queue<int> queue(minus_one); });
  refused("a queue's capacity", [&] { fl::reorder_queue<int> queue(minus_one); });
  refused("the largest_item", [&] { fl::map(same, fl::largest_item{minus_one}); });
  const auto p = fl::from(numbers(2)) | fl::prefetch(2);
  refused("the queue_capacity", [&] { p.infinite({.queue_capacity = minus_one}); });
  refused("the memory_budget", [&] { p.finite({.memory_budget = minus_one}); });
  refused("the number of epochs", [&] { p.finite({.epochs = static_cast<std::uint32_t>(-1)}); });
  refused("the number of ranks", [&] { p.infinite({.rank = {0, static_cast<std::uint32_t>(-1)}}); });
  CHECK(throws_saying<std::invalid_argument>("-1 asked for", [&] { fl::map(same, fl::workers{minus_one}); }));
  CHECK(throws_saying<std::invalid_argument>("no part -1 of 2", [&] { fl::partition({1, 1}, minus_one); }));
  CHECK(throws_saying<std::invalid_argument>("no rank -1 of 4", [&] {
    p.infinite({.rank = {static_cast<std::uint32_t>(-1), 4}});
  }));
}

TEST_CASE("The largest shuffle buffer of all can be asked for, but not be had") {
  const watchdog guard("largest buffer");
  const auto p = fl::from(numbers(100)) |
                 fl::shuffle({.capacity = std::numeric_limits<std::ptrdiff_t>::max()}) | fl::prefetch(1);
  CHECK_THROWS_AS(p.finite({.memory_budget = 1'000'000'000}), std::invalid_argument);
  CHECK(throws_saying<fl::pipeline_error>("shuffle failed: there was no memory left",
                                          [&] { collect(p.finite()); }));
}

TEST_CASE("The longest queue of all can be asked for, but not be had") {
  if (rounds(4) < 4) return; // a sanitizer's allocator ends the program instead
  const watchdog guard("longest queue");
  auto loader = (fl::from(numbers(100)) | fl::prefetch(std::numeric_limits<std::ptrdiff_t>::max())).finite();
  CHECK(throws_saying<fl::pipeline_error>("there was no memory left", [&] { collect(std::move(loader)); }));
}
