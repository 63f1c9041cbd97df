// SPDX-License-Identifier: MIT
#include <feedline/core/dynamic_pipeline.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

using function = std::function<int(int)>;
using test = std::function<bool(int)>;
using expand = std::function<std::vector<int>(int)>;

/// Reads its samples by their number, so that what a stage held can be read again.
struct numbers {
  std::optional<int> next() { return at < 200 ? std::optional(static_cast<int>(at++)) : std::nullopt; }

  std::uint64_t index() const noexcept { return at - 1; }

  void seek(std::uint64_t index) noexcept { at = index; }

  void state(auto& archive) { archive(at); }

  std::uint64_t at = 0;
};

/// Emits each item with a random number, which only the stage's place and the item decide.
constexpr auto random_half = [](int n, fl::context& c) { return c.random() % 2 == 0 ? n : -n; };

const function doubled = [](int n) { return 2 * n; };
const test is_not_third = [](int n) { return n % 3 != 0; };
const expand twice = [](int n) { return std::vector{n, n + 1}; };

auto stages() {
  return fl::from(numbers()) | fl::map(doubled) | fl::filter(is_not_third) | fl::shuffle({.capacity = 20}) |
         fl::flat_map(twice, fl::workers{3}) | fl::map(random_half, fl::workers{2}, fl::name{"halve"}) |
         fl::prefetch(5) | fl::shuffle({.capacity = 10}) | fl::map(doubled) | fl::batch(8);
}

fl::any_pipeline<fl::batch_of<int>> same_stages() {
  fl::dynamic_pipeline p(fl::from(numbers()) | fl::map(doubled));
  p = p.append(fl::filter(is_not_third));
  p = p.append(fl::shuffle({.capacity = 20}));
  p = p.append(fl::flat_map(twice, fl::workers{3}));
  p = p.append(fl::map(random_half, fl::workers{2}, fl::name{"halve"}));
  p = p.append(fl::prefetch(5));
  p = p.append(fl::shuffle({.capacity = 10}) | fl::map(doubled));
  return p.append(fl::batch(8));
}

template <class Loader>
std::vector<std::vector<int>> batches(Loader&& loader, std::size_t count) {
  std::vector<std::vector<int>> all;
  while (all.size() < count) {
    const auto batch = loader.next();
    if (!batch) break;
    all.emplace_back(batch->values().begin(), batch->values().end());
  }
  return all;
}

} // namespace

TEST_CASE("A dynamic pipeline yields what the pipeline of the same stages yields") {
  const watchdog guard("dynamic pipelines");
  const auto dynamic = same_stages();
  for (const std::uint64_t seed : {1u, 2u}) {
    CHECK(batches(dynamic.finite({.seed = seed, .epochs = 2}), 1000) ==
          batches(stages().finite({.seed = seed, .epochs = 2}), 1000));
    CHECK(batches(dynamic.infinite({.seed = seed}), 100) == batches(stages().infinite({.seed = seed}), 100));
    for (const std::uint32_t rank : {0u, 2u})
      CHECK(batches(dynamic.infinite({.seed = seed, .rank = {rank, 3}}), 50) ==
            batches(stages().infinite({.seed = seed, .rank = {rank, 3}}), 50));
  }
  fl::dynamic_pipeline counted(fl::from(count_to(50)));
  const fl::any_pipeline<fl::batch_of<int>> tens = counted.append(fl::map(doubled)).append(fl::batch(10));
  CHECK(tens.size() == 5);
  CHECK(counted.append(fl::batch(10))
            .append(fl::map([](const fl::batch_of<int>& b) { return b.size(); }))
            .append(fl::take(2))
            .append(fl::batch(2))
            .
            operator fl::any_pipeline<fl::batch_of<std::size_t>>()
            .size() == 1);
}

TEST_CASE("A dynamic pipeline is resumed to the item, with what its buffers held") {
  const watchdog guard("resumed dynamic pipelines");
  const auto pipeline = same_stages();
  const auto whole = batches(pipeline.finite({.seed = 7, .epochs = 3}), 1000);
  for (std::size_t at = 0; at <= whole.size(); at += 3) {
    auto run = pipeline.finite({.seed = 7, .epochs = 3});
    batches(run, at);
    auto rest = batches(pipeline.finite({.epochs = 3, .resume = run.checkpoint()}), 1000);
    CHECK(rest == std::vector(whole.begin() + static_cast<std::ptrdiff_t>(at), whole.end()));
  }
}

TEST_CASE("What buffers held is read from the source alone, not by working through all samples before") {
  const watchdog guard("dynamic pipelines that read again");
  const auto calls = std::make_shared<std::atomic<int>>(0);
  fl::dynamic_pipeline p(fl::from(numbers()));
  p = p.append(fl::map([calls](int n) {
    ++*calls;
    return n;
  }));
  const fl::any_pipeline<int> shuffled = p.append(fl::shuffle({.capacity = 10})).append(fl::prefetch(1));
  auto run = shuffled.infinite();
  for (int i = 0; i < 5000; ++i) run.next();
  const auto place = run.checkpoint();
  const auto next = run.next();
  run.stop();
  *calls = 0;
  auto resumed = shuffled.infinite({.resume = place});
  CHECK(resumed.next() == next);
  CHECK(*calls < 3000); // what is ready, of 5,000
}

TEST_CASE("A failure in a dynamic pipeline names the stage as in any other") {
  const watchdog guard("failures in dynamic pipelines");
  const auto fails = [](int n) {
    if (n % 50 == 7) throw std::runtime_error("seven");
    return n;
  };
  fl::dynamic_pipeline p(fl::from(count_to(100)) | fl::map(doubled));
  const fl::any_pipeline<int> halves = p.append(fl::map([](int n) {
                                          return n / 2;
                                        })).append(fl::map(fails, fl::workers{3}, fl::name{"sevens"}));
  const auto failed = run_to_end(halves.finite()).failed;
  REQUIRE(failed);
  CHECK(failed->stage == "map `sevens`");
  CHECK(failed->index == 7);
  const auto skipped = run_to_end(halves.finite({.on_error = fl::on_error::skip}));
  CHECK(skipped.items.size() == 98);
  CHECK(skipped.skipped_indices() == std::vector<std::uint64_t>{7, 57});
  std::string names;
  for (const auto& s : halves.finite().metrics().total.stages) names += s.name + " ";
  CHECK(names == "from map (1 of 2) map (2 of 2) map `sevens` ");
}

TEST_CASE("A stage that changes the order, or drops, makes a dynamic run one without checkpoints") {
  fl::dynamic_pipeline p(fl::from(count_to(100)));
  const fl::any_pipeline<int> unordered =
      p.append(fl::map(doubled, fl::workers{2}, fl::unordered)).append(fl::map(doubled));
  CHECK_FALSE(unordered.infinite().can_be_resumed());
  const fl::any_pipeline<int> dropping =
      p.append(fl::prefetch<fl::overflow::drop_newest>(2)).append(fl::map(doubled));
  CHECK_FALSE(dropping.infinite().can_be_resumed());
  CHECK_FALSE(dropping.size());
  const fl::any_pipeline<int> workers_drop = p.append(fl::map(doubled, fl::workers{2}))
                                                 .append(fl::prefetch<fl::overflow::drop_newest>(2))
                                                 .append(fl::map(doubled));
  CHECK(collect(workers_drop.finite()).size() <= 100);
  const fl::any_pipeline<int> ordered = p.append(fl::map(doubled, fl::workers{2}));
  CHECK(ordered.infinite().can_be_resumed());
  CHECK(collect(ordered.finite()).size() == 100); // those before didn't change it
}

TEST_CASE("A run of a dynamic pipeline outlives it") {
  const watchdog guard("a run that outlives its dynamic pipeline");
  auto run = [] {
    fl::dynamic_pipeline p(fl::from(count_to(100)));
    const fl::any_pipeline<int> any = p.append(fl::map(doubled)).append(fl::shuffle({.capacity = 10}));
    return any.infinite();
  }();
  for (int i = 0; i < 1000; ++i) CHECK(run.next());
}
