// SPDX-License-Identifier: MIT
// The three endings, close, stop and fail, on pipelines of many shapes.
#include "support/shapes.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/asleep.hpp"
#include "support/catch.hpp"
#include "support/rounds.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

integers flattened(const std::vector<integers>& batches) {
  integers all;
  for (const integers& b : batches) all.insert(all.end(), b.begin(), b.end());
  return all;
}

// Not `==` inside CHECK: that would print thousands of numbers.
template <class T>
bool equal(const T& a, const T& b) {
  return a == b;
}

integers sorted(integers all) {
  std::sort(all.begin(), all.end());
  return all;
}

integers first_numbers(int count, std::uint32_t epoch = 0) {
  integers all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), static_cast<int>(epoch) * numbers::next_epoch);
  return all;
}

/// The output of a run until it ended, and how it ended.
struct outcome {
  std::vector<integers> batches;
  std::optional<fl::failure> error;
  std::vector<fl::failure> failures;
};

outcome run(const shape& shape, const setup& s) {
  outcome o;
  const auto loader = shape.start(s);
  try {
    while (auto batch = loader->next()) o.batches.push_back(std::move(*batch));
  } catch (const fl::pipeline_error& e) {
    o.error = e.failure();
  }
  o.failures = loader->failures();
  return o;
}

// Without an order, only the set of outputs can be compared, and not their division into batches.
std::vector<integers> comparable(const shape& shape, const outcome& o) {
  return shape.order == order::none ? std::vector<integers>{sorted(flattened(o.batches))} : o.batches;
}

constexpr std::size_t worker_counts[] = {1, 2, 8, 64};
constexpr std::size_t capacities[] = {0, 1, 10};

// Fewer where many threads pass a queue that holds a single item, each of which wakes all of them.
constexpr int count_for(std::size_t workers) { return workers > 8 ? 80 : rounds(1000); }

/// The output of a shape when the work on `bad`, or the source at its position, ends the stream.
void check_failed(const shape& shape, const outcome& o, int count, int bad, bool by_source) {
  REQUIRE(o.error);
  CHECK(o.error->message == "unlucky " + std::to_string(bad));
  CHECK(o.error->stage.starts_with(by_source ? "numbers" : "map"));
  CHECK(o.error->epoch == 0);
  if (!by_source) {
    CHECK(o.error->index == static_cast<std::uint64_t>(bad));
    CHECK(o.error->origin == "number " + std::to_string(bad));
  }

  const integers out = flattened(o.batches);
  if (shape.order == order::none) {
    const integers all = sorted(shape.of(first_numbers(count))), got = sorted(out);
    CHECK(std::includes(all.begin(), all.end(), got.begin(), got.end()));
    CHECK(std::find(out.begin(), out.end(), bad) == out.end());
    return;
  }
  const std::vector<integers> batches = run(shape, {.count = count}).batches;
  const integers whole = flattened(batches);
  const std::size_t batch_size = batches.empty() ? 1 : batches[0].size();
  const bool is_behind_buffer = shape.order == order::shuffled_before_work && !by_source;
  const std::size_t before =
      is_behind_buffer ? static_cast<std::size_t>(std::find(whole.begin(), whole.end(), bad) - whole.begin())
                       : shape.of(first_numbers(bad)).size();
  REQUIRE(out.size() <= before);
  CHECK(std::equal(out.begin(), out.end(), whole.begin())); // as if nothing had failed
  CHECK(out.size() % batch_size == 0);
  const std::size_t in_buffer = shape.order == order::kept || is_behind_buffer ? 0 : buffer.capacity;
  CHECK(out.size() + in_buffer + batch_size > before);
}

} // namespace

TEST_CASE("close: every sample arrives exactly once per epoch, whatever the workers and queues") {
  const watchdog guard("close");
  for (const shape& shape : all_shapes())
    for (const std::size_t workers : worker_counts) {
      const int count = count_for(workers);
      CAPTURE(shape.name, workers);
      const outcome expected = run(shape, {.count = count, .workers = 1, .epochs = 2});
      integers epochs[2] = {shape.of(first_numbers(count)), shape.of(first_numbers(count, 1))};
      const integers out = flattened(expected.batches);
      REQUIRE(out.size() == epochs[0].size() + epochs[1].size());
      const auto middle = out.begin() + static_cast<std::ptrdiff_t>(epochs[0].size());
      integers came[2] = {{out.begin(), middle}, {middle, out.end()}};
      for (const int e : {0, 1}) {
        if (shape.order != order::kept) epochs[e] = sorted(epochs[e]), came[e] = sorted(came[e]);
        CHECK(equal(came[e], epochs[e]));
      }
      for (const std::size_t capacity : capacities) {
        CAPTURE(capacity);
        const outcome o =
            run(shape, {.count = count, .workers = workers, .queue_capacity = capacity, .epochs = 2});
        CHECK(equal(comparable(shape, o), comparable(shape, expected)));
        CHECK_FALSE(o.error);
        CHECK(o.failures.empty());
      }
    }
}

TEST_CASE("close: an end that is reached while every queue is full loses nothing") {
  const watchdog guard("full queues");
  for (const shape& shape : all_shapes())
    for (const std::size_t capacity : {1u, 4u}) {
      CAPTURE(shape.name, capacity);
      const setup s{.count = 30, .workers = 4, .queue_capacity = capacity};
      const outcome expected = run(shape, s);
      const auto loader = shape.start(s);
      await_all_others_asleep();
      outcome o;
      while (auto batch = loader->next()) o.batches.push_back(std::move(*batch));
      CHECK(equal(comparable(shape, o), comparable(shape, expected)));
      CHECK_FALSE(loader->next());
      CHECK_FALSE(loader->stopped());
      loader->stop();
      CHECK_FALSE(loader->next());
    }
}

TEST_CASE("An infinite run yields the same with any number of workers, without a pause between epochs") {
  const watchdog guard("infinite");
  const auto beginning = [](const shape& shape, std::size_t workers, std::size_t capacity) {
    const auto loader =
        shape.start({.count = 100, .workers = workers, .queue_capacity = capacity, .epochs = 0});
    integers all;
    while (all.size() < 700) {
      const auto batch = loader->next();
      all.insert(all.end(), batch.value().begin(), batch.value().end());
    }
    return all;
  };
  for (const shape& shape : all_shapes()) {
    if (shape.of({1}).empty()) continue; // never yields anything
    CAPTURE(shape.name);
    const integers expected = beginning(shape, 1, 0);
    for (const std::size_t workers : {2u, 8u})
      for (const std::size_t capacity : capacities) {
        const integers all = beginning(shape, workers, capacity);
        const auto epoch = static_cast<std::ptrdiff_t>(shape.of(first_numbers(100)).size());
        if (shape.order == order::none)
          CHECK(equal(sorted({all.begin(), all.begin() + epoch}),
                      sorted({expected.begin(), expected.begin() + epoch})));
        else CHECK(equal(all, expected));
      }
  }
}

TEST_CASE("fail: the error arrives at the position of its item, and what stages hold isn't delivered") {
  const watchdog guard("fail");
  for (const shape& shape : all_shapes())
    for (const std::size_t workers : worker_counts)
      for (const bool by_source : {false, true}) {
        const int count = count_for(workers);
        for (const int bad : {0, 1, 77, count - 1}) {
          CAPTURE(shape.name, workers, by_source, bad);
          setup s{.count = count, .workers = workers};
          (by_source ? s.bad_numbers : s.bad_work) = {bad};
          check_failed(shape, run(shape, s), count, bad, by_source);
        }
      }
}

TEST_CASE("fail: the first error in the stream's order arrives, whatever the speed of the workers") {
  const watchdog guard("several errors");
  for (int round = 0; round < rounds(100); ++round)
    for (const shape& shape : all_shapes()) {
      if (shape.order != order::kept) continue;
      const int bad = 5 + round % 40;
      setup s{.count = 60, .workers = 8, .queue_capacity = static_cast<std::size_t>(round % 4)};
      s.bad_work = {bad, bad + 1, bad + 2, bad + 9};
      CAPTURE(shape.name, bad);
      check_failed(shape, run(shape, s), 60, bad, false);
    }
}

TEST_CASE("fail: an error of unordered workers isn't lost") {
  const watchdog guard("unordered errors");
  for (int round = 0; round < rounds(100); ++round)
    for (const shape& shape : all_shapes())
      if (shape.order == order::none) {
        const outcome o = run(shape, {.count = 60, .workers = 8, .epochs = 3, .bad_work = {round % 60}});
        CAPTURE(shape.name, round);
        CHECK(o.error);
      }
}

TEST_CASE("skip: failed samples are left out and recorded in the stream's order, and all others arrive") {
  const watchdog guard("skip");
  for (const shape& shape : all_shapes())
    for (const std::size_t workers : worker_counts)
      for (const std::size_t capacity : capacities)
        for (const bool by_source : {false, true}) {
          CAPTURE(shape.name, workers, capacity, by_source);
          const int count = count_for(workers) / 4;
          const std::vector<int> bad{0, 1, 2, 17, count - 2, count - 1};
          setup s{.count = count, .workers = workers, .queue_capacity = capacity};
          s.on_error = fl::on_error::skip;
          (by_source ? s.bad_numbers : s.bad_work) = bad;
          const outcome o = run(shape, s);
          CHECK_FALSE(o.error);

          integers rest;
          for (const int n : first_numbers(count))
            if (std::find(bad.begin(), bad.end(), n) == bad.end()) rest.push_back(n);
          const integers out = flattened(o.batches);
          const bool kept = shape.order == order::kept;
          CHECK(equal(kept ? out : sorted(out), kept ? shape.of(rest) : sorted(shape.of(rest))));

          REQUIRE(o.failures.size() == bad.size());
          std::vector<std::string> messages, expected;
          for (const fl::failure& f : o.failures) messages.push_back(f.message);
          for (const int n : bad) expected.push_back("unlucky " + std::to_string(n));
          const bool in_order = shape.order == order::kept || shape.order == order::shuffled_behind_work ||
                                (by_source && shape.order != order::none);
          if (!in_order) {
            std::sort(messages.begin(), messages.end());
            std::sort(expected.begin(), expected.end());
          }
          CHECK(messages == expected);
        }
}

TEST_CASE("stop: from any thread at any moment, no more items arrive and nothing hangs") {
  const watchdog guard("stop");
  for (const shape& shape : all_shapes())
    for (const std::size_t workers : {1u, 8u})
      for (const std::size_t capacity : {0u, 1u}) {
        CAPTURE(shape.name, workers, capacity);
        const setup s{.workers = workers, .queue_capacity = capacity, .epochs = 0};
        const auto take_all = [&](auto& from) {
          try {
            while (from->next()) {
            }
          } catch (const fl::pipeline_error&) { // a run that never yields anything may detect that first
            CHECK(shape.of({1}).empty());
          }
        };

        auto loader = shape.start(s); // while every thread waits
        if (!shape.of({1}).empty()) await_all_others_asleep();
        loader->stop();
        CHECK_FALSE(loader->next());
        CHECK(loader->stopped());

        loader = shape.start(s); // from another thread, while this one may wait
        std::thread other([&] { loader->stop(); });
        take_all(loader);
        other.join();

        std::stop_source source; // by a token, from inside the work
        setup from_work = s;
        from_work.stop = source.get_token();
        from_work.before_work = [&](int n) {
          if (n == 30) source.request_stop();
        };
        loader = shape.start(from_work);
        take_all(loader);
        CHECK(loader->stopped());
        CHECK(loader->failures().empty());

        from_work.before_work = {}; // by a token that was requested before
        loader = shape.start(from_work);
        CHECK_FALSE(loader->next());
        CHECK(loader->stopped());
      }
}

TEST_CASE("stop: a loader can be destroyed at any moment") {
  const watchdog guard("destruction");
  fl::random_generator random(1);
  const auto& shapes = all_shapes();
  for (int round = 0; round < rounds(1000); ++round) {
    const shape& shape = shapes[random.below(shapes.size())];
    setup s{.count = static_cast<int>(random.below(200)) + 1,
            .workers = random.below(20) == 0 ? 64 : random.below(8) + 1,
            .queue_capacity = random.below(5),
            .epochs = static_cast<std::uint32_t>(random.below(3)),
            .on_error = random.chance(0.5) ? fl::on_error::fail : fl::on_error::skip,
            .failure_limit = random.below(5)};
    if (random.chance(0.2)) s.bad_work = {static_cast<int>(random.below(200))};
    if (random.chance(0.2)) s.bad_numbers = {static_cast<int>(random.below(200))};
    const auto loader = shape.start(s);
    const bool gives = !shape.of({1}).empty() && s.count > 1;
    try {
      for (auto wanted = random.below(2) * random.below(300); wanted > 0 && (gives || s.epochs > 0); --wanted)
        if (!loader->next()) break;
    } catch (const fl::pipeline_error&) {
    }
    if (random.chance(0.2)) loader->stop();
  }
  SUCCEED();
}
