// SPDX-License-Identifier: MIT
#include <feedline/core/options.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <tuple>
#include <vector>

#include <feedline/cache.hpp>
#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/temporary_folder.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

TEST_CASE("The default options are seed 0, one pass and to fail at the first error") {
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

TEST_CASE("A finite run makes the requested number of passes, and 0 is refused") {
  const auto p = fl::from(numbers(2)) | fl::prefetch(2);
  CHECK(throws_saying<std::invalid_argument>("a finite run over 0 epochs would yield nothing",
                                             [&] { p.finite({.epochs = 0}); }));
  CHECK(collect(p.finite()) == std::vector<int>{0, 1});
  CHECK(collect(p.finite({.epochs = 3})).size() == 6);
}

TEST_CASE("Runs that each begin with the next epoch yield what one run over all epochs yields") {
  const auto random = [](int n, fl::context& c) {
    return std::tuple(n % numbers::next_epoch, c.epoch, c.random());
  };
  const auto check = [](const auto& p) {
    const auto whole = collect(p.finite({.seed = 3, .epochs = 4}));
    CHECK(collect(p.finite({.seed = 3, .epochs = 4, .first_epoch = 0})) == whole);
    auto parts = whole;
    parts.clear();
    for (std::uint32_t epoch = 0; epoch < 3; ++epoch)
      for (const auto& item : p.finite({.seed = 3, .first_epoch = epoch})) parts.push_back(item);
    for (const auto& item : p.finite({.seed = 3, .first_epoch = 3})) parts.push_back(item);
    CHECK(parts == whole);
    const auto rest = collect(p.finite({.seed = 3, .epochs = 2, .first_epoch = 2}));
    CHECK(std::vector(whole.begin() + static_cast<std::ptrdiff_t>(whole.size() / 2), whole.end()) == rest);
    // A resumed run continues with its own epochs.
    for (const std::size_t cut : {0u, 1u, 20u, 59u}) {
      auto left = p.finite({.seed = 3, .epochs = 2, .first_epoch = 2});
      for (std::size_t i = 0; i < cut; ++i) left.next();
      const auto place = fl::checkpoint::from_bytes(left.checkpoint().to_bytes());
      const auto expected = std::vector(rest.begin() + static_cast<std::ptrdiff_t>(cut), rest.end());
      CHECK(collect(p.finite({.epochs = 2, .resume = place})) == expected);
      CHECK(collect(p.finite({.epochs = 2, .first_epoch = 2, .resume = place})) == expected);
      CHECK(throws_saying<std::invalid_argument>("first_epoch 2, this one has first_epoch 1", [&] {
        p.finite({.epochs = 2, .first_epoch = 1, .resume = place});
      }));
    }
  };
  check(fl::from(numbers(30)) | fl::map(random, fl::workers{3}) | fl::shuffle({.capacity = 7}));
  check(fl::from(count_to(30)) | fl::global_shuffle() | fl::map(random, fl::workers{3}) | fl::prefetch(2));
  CHECK(throws_saying<std::invalid_argument>("the first_epoch is negative or too large", [] {
    (fl::from(numbers(3)) | fl::prefetch(2)).finite({.first_epoch = static_cast<std::uint32_t>(-1)});
  }));
}

TEST_CASE("A second finite run that repeats a random order is noticed once for each pipeline") {
  std::vector<std::string> said;
  const auto run = [&](const auto& p, fl::finite_options o) {
    o.on_notice = [&](const std::string& sentence) { said.push_back(sentence); };
    collect(p.finite(o));
    return said.size();
  };
  const auto shuffled = fl::from(numbers(3)) | fl::shuffle({.capacity = 2});
  CHECK(run(shuffled, {}) == 0);
  CHECK(run(shuffled, {.seed = 1}) == 0);
  CHECK(run(shuffled, {.first_epoch = 1}) == 0);
  CHECK(run(shuffled, {.seed = 1}) == 1);
  CHECK(said.back().find("pass .first_epoch = epoch") != std::string::npos);
  CHECK(run(shuffled, {.seed = 1}) == 1);
  const auto global = fl::from(count_to(3)) | fl::global_shuffle() | fl::prefetch(1);
  const auto copy = global;
  CHECK(run(global, {}) == 1);
  CHECK(run(copy, {}) == 2);
  // Evaluation: the order is the listed one.
  const auto in_order = fl::from(numbers(3)) | fl::prefetch(1);
  CHECK(run(in_order, {}) == 2);
  CHECK(run(in_order, {}) == 2);
}

TEST_CASE("With a first_epoch the order of shards is that of training, also for a single epoch") {
  const temporary_folder folder;
  for (int i = 0; i < 12; ++i) folder.write(std::to_string(10 + i), std::to_string(i) + "\n");
  const auto p = fl::lines({folder / "*"}) | fl::prefetch(2);
  const auto listed = collect(p.finite());
  CHECK(collect(p.finite()) == listed);
  CHECK(collect(p.finite({.first_epoch = 0})) != listed);
  CHECK(collect(p.finite({.first_epoch = 1})) != collect(p.finite({.first_epoch = 0})));
  const auto left = p.finite().checkpoint();
  CHECK(throws_saying<std::invalid_argument>("no first_epoch, this one has first_epoch 0",
                                             [&] { p.finite({.first_epoch = 0, .resume = left}); }));
}

TEST_CASE("Equal seeds yield equal runs, other seeds don't, and each epoch has its own order") {
  const auto p = fl::from(numbers(200)) |
                 fl::map([](int n) { return n % numbers::next_epoch; }, fl::workers{2}) |
                 fl::shuffle({.capacity = 50});
  const auto once = collect(p.finite({.seed = 3, .epochs = 2}));
  CHECK(collect(p.finite({.seed = 3, .epochs = 2, .queue_capacity = 3})) == once);
  CHECK_FALSE(collect(p.finite({.seed = 4, .epochs = 2})) == once);
  CHECK_FALSE(std::vector(once.begin(), once.begin() + 200) == std::vector(once.begin() + 200, once.end()));
  CHECK(collect(p.infinite({.seed = 3}), 300) == collect(p.infinite({.seed = 3, .queue_capacity = 1}), 300));
}

TEST_CASE("A size that was negative is refused and shown as negative, wherever it is set") {
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
  refused("bucket_batch: the batch_size", [&] { fl::bucket_batch({.batch_size = minus_one}); });
  refused("bucket_batch: the max_tokens", [&] { fl::bucket_batch({.max_tokens = minus_one}); });
  refused("bucket_batch: a boundary", [&] {
    fl::bucket_batch({.boundaries = {4, minus_one}, .batch_size = 4});
  });
  refused("with_replacement: the number of samples", [&] { fl::with_replacement({.samples = minus_one}); });
  refused("cache: the memory_bytes", [&] { fl::cache({.memory_bytes = minus_one}); });
  refused("cache: the directory_bytes",
          [&] { fl::cache({.directory = "/nowhere", .directory_bytes = minus_one}); });
  refused("interleave: the number of files", [&] { fl::interleave(minus_one); });
  refused("records: the record size", [&] { fl::records({"none"}, minus_one); });
  refused("shuffle: the capacity", [&] { fl::shuffle({.capacity = minus_one}); });
  refused("shuffle: the min_fill", [&] { fl::shuffle({.capacity = 4, .min_fill = minus_one}); });
  refused("shuffle: the capacity", [&] { fl::concurrent_shuffle_buffer<int>({.capacity = minus_one}); });
  refused("lines: max_line_bytes", [&] { fl::lines({"none"}, {.max_line_bytes = minus_one}); });
  refused("cache: the items_per_sample",
          [&] { fl::cache({.memory_bytes = 1000, .items_per_sample = minus_one}); });
  refused("a queue's capacity", [&] { fl::spsc_queue<int> queue(minus_one); });
  refused("a queue's capacity", [&] { fl::mpmc_queue<int> queue(minus_one); });
  refused("a queue's capacity", [&] { fl::reorder_queue<int> queue(minus_one); });
  refused("the max_item_bytes", [&] { fl::map(same, fl::max_item_bytes{minus_one}); });
  const auto p = fl::from(numbers(2)) | fl::prefetch(2);
  refused("the queue_capacity", [&] { p.infinite({.queue_capacity = minus_one}); });
  refused("the memory_budget", [&] { p.finite({.memory_budget = minus_one}); });
  refused("the number of epochs", [&] { p.finite({.epochs = static_cast<std::uint32_t>(-1)}); });
  refused("the world size", [&] { p.infinite({.rank = {0, static_cast<std::uint32_t>(-1)}}); });
  CHECK(throws_saying<std::invalid_argument>("-1 requested", [&] { fl::map(same, fl::workers{minus_one}); }));
  CHECK(throws_saying<std::invalid_argument>("no partition -1 of 2", [&] {
    fl::partition({1, 1}, minus_one);
  }));
  CHECK(throws_saying<std::invalid_argument>("no rank -1 of 4", [&] {
    p.infinite({.rank = {static_cast<std::uint32_t>(-1), 4}});
  }));
}

TEST_CASE("The largest shuffle buffer can be requested, but its memory isn't available") {
  const watchdog guard("largest buffer");
  const auto p = fl::from(numbers(100)) |
                 fl::shuffle({.capacity = std::numeric_limits<std::ptrdiff_t>::max()}) | fl::prefetch(1);
  CHECK_THROWS_AS(p.finite({.memory_budget = 1'000'000'000}), std::invalid_argument);
  CHECK(throws_saying<fl::pipeline_error>("shuffle failed: out of memory", [&] { collect(p.finite()); }));
}

TEST_CASE("The longest queue can be requested, and takes the memory that its items need") {
  const watchdog guard("longest queue");
  const auto p = fl::from(numbers(100)) | fl::prefetch(std::numeric_limits<std::ptrdiff_t>::max());
  CHECK(collect(p.finite()).size() == 100);
  auto small_epochs =
      (fl::from(numbers(3)) | fl::prefetch(std::numeric_limits<std::ptrdiff_t>::max())).infinite();
  CHECK(collect(small_epochs, 3000).size() == 3000);
}
