// SPDX-License-Identifier: MIT
// Chains of map and filter take small values in rows. Nobody may see a difference to one value after another.
#include <algorithm>
#include <array>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <feedline/core/loader.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/batch.hpp>
#include <feedline/stage/filter.hpp>
#include <feedline/stage/map.hpp>
#include <feedline/stage/prefetch.hpp>

#include "support/catch.hpp"
#include "support/leave_and_resume.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;

namespace {

constexpr std::uint64_t count = 3000;

/// Counts, and fails at some numbers.
struct numbers {
  std::optional<std::uint64_t> next() {
    if (at == count) return std::nullopt;
    if (const std::uint64_t n = at++; n % 211 != 7) return n;
    throw std::runtime_error("no number");
  }

  std::uint64_t at = 0;
};

/// The same with a state, and indices that don't count up.
struct odd_numbers : numbers {
  std::uint64_t index() const noexcept { return 2 * (at - 1) + 1; }

  void seek(std::uint64_t index) noexcept { at = index / 2; }

  void state(auto& archive) { archive(at); }
};

/// Counts, and can be made of anything.
struct greedy {
  template <class T>
    requires(!std::same_as<T, greedy>)
  explicit greedy(T&&) {}

  std::optional<std::uint64_t> next() { return at < count ? std::optional(at++) : std::nullopt; }

  std::uint64_t at = 0;
};

std::uint64_t doubled(std::uint64_t n) {
  if (n % 97 == 11) throw std::runtime_error("not doubled");
  return 2 * n;
}

bool is_kept(std::uint64_t n) {
  if (n % 178 == 40) throw std::runtime_error("not tested");
  return n % 14 != 0 && n % 1000 < 900;
}

std::uint64_t increased(std::uint64_t n) {
  if (n % 302 == 12) throw std::runtime_error("not increased");
  return n + 1;
}

/// What a loop makes of the numbers.
struct by_hand {
  template <class Source>
  explicit by_hand(Source source) {
    for (std::uint64_t n = 0, given = 0; n < count; ++n) {
      try {
        if (!source.next()) break;
        const std::uint64_t index = given++;
        const std::uint64_t twice = doubled(n);
        if (!is_kept(twice)) continue;
        values.push_back(increased(twice));
        if constexpr (requires { source.index(); }) indices.push_back(source.index());
        else indices.push_back(index);
      } catch (const std::runtime_error&) {
        ++failures;
      }
    }
  }

  std::vector<std::uint64_t> values, indices;
  std::size_t failures = 0;
};

template <class Source, class... Workers>
auto chain_of(Source source, Workers... workers) {
  return std::move(source) | fl::map(doubled, workers...) | fl::filter(is_kept) | fl::map(increased);
}

/// Compares the values of two epochs.
void check_against(const by_hand& expected, auto&& loader) {
  const std::size_t size = expected.values.size();
  for (std::size_t at = 0; at < 2 * size;) {
    const auto batch = loader.next();
    REQUIRE(batch);
    const fl::sample_ids ids = batch->ids();
    for (std::size_t i = 0; i < batch->size() && at < 2 * size; ++i, ++at) {
      REQUIRE(ids[i] == fl::sample_id{expected.indices[at % size], 0, at < size ? 0u : 1u});
      REQUIRE(batch->values()[i] == expected.values[at % size]);
    }
  }
}

void check_both(const by_hand& expected, const auto& batches) {
  check_against(expected,
                batches.infinite({.on_error = fl::on_error::skip})); // batches go on into the next epoch
  auto loader = batches.finite({.epochs = 2, .on_error = fl::on_error::skip});
  check_against(expected, loader);
  CHECK_FALSE(loader.next());
  CHECK(loader.failures().size() == 2 * expected.failures);
}

} // namespace

TEST_CASE("A chain gives the same values, identities and failures as a loop") {
  const feedline::test::watchdog guard("rows against a loop");
  const std::size_t size = GENERATE(1u, 10u, 700u);
  check_both(by_hand(numbers()), chain_of(numbers()) | fl::batch(size));
  check_both(by_hand(odd_numbers()), chain_of(odd_numbers()) | fl::batch(size));
  check_both(by_hand(odd_numbers()), chain_of(odd_numbers(), fl::workers{3}) | fl::batch(size));
}

TEST_CASE("A chain of small values resumes at each batch, also after failures") {
  using namespace feedline::test;
  leave_and_resume("rows of a source", 20,
                   [](draw& d, const circumstances&) { return chain_of(numbers()) | fl::batch(d(1, 300)); });
  leave_and_resume("rows of a source with a state", 20, [](draw& d, const circumstances&) {
    return chain_of(odd_numbers()) | fl::batch(d(1, 300));
  });
  leave_and_resume("rows that go to the consumer", 20, [](draw&, const circumstances& c) {
    return chain_of(odd_numbers()) | fl::prefetch(c.queue);
  });
  leave_and_resume("rows of packets", 20, [](draw& d, const circumstances& c) {
    return chain_of(odd_numbers(), fl::workers{c.workers}) | fl::batch(d(1, 300)) | fl::prefetch(c.queue);
  });
}

TEST_CASE("A failure that doesn't occur again leaves its value out of a resumed chain") {
  static std::atomic<bool> is_healed;
  const auto same = [](std::uint64_t n) { return n; };
  const auto fails = [](std::uint64_t n) {
    if (n % 10 == 3 && !is_healed) throw std::runtime_error("broken");
    return n;
  };
  const auto all = [&](std::uint64_t n) { return fails(n) == n; };
  const auto check = [&](const auto& pipeline) {
    is_healed = false;
    std::vector<fl::checkpoint> checkpoints;
    std::vector<std::uint64_t> last;
    auto loader = pipeline.finite({.on_error = fl::on_error::skip});
    for (int i = 0; i < 40; ++i) {
      last.push_back(loader.next().value().indices().back());
      checkpoints.push_back(loader.checkpoint());
    }
    loader.stop();
    is_healed = true;
    for (std::size_t i = 0; i < last.size(); i += feedline::test::place_step) {
      auto resumed = pipeline.finite({.on_error = fl::on_error::skip, .resume = checkpoints[i]});
      const std::uint64_t first = resumed.next().value().indices().front();
      // The checkpoint may be behind the failure that follows the last sample.
      if (first != last[i] + 1) CHECK((first == last[i] + 2 && first % 10 == 4));
    }
  };
  const auto source = fl::from(std::views::iota(std::uint64_t{0}, count));
  check(source | fl::map(same, fl::workers{2}) | fl::filter(all) | fl::batch(64) | fl::prefetch(1));
  check(source | fl::map(same, fl::workers{2}) | fl::map(fails) | fl::filter(all) | fl::batch(64));
  check(source | fl::map(fails) | fl::filter(all) | fl::map(same) | fl::batch(64));
}

TEST_CASE("A run resumed after an outage yields its sample, also if the value before it failed") {
  static std::atomic<std::uint64_t> away;

  struct served_numbers : odd_numbers {
    std::optional<std::uint64_t> next() {
      if (at == count) return std::nullopt;
      if (const std::uint64_t n = at++; n != away) return n;
      throw fl::outage_error("no answer");
    }
  };

  for (std::uint64_t n = 100; n < 1000; n += 31) {
    const auto fails = [=](std::uint64_t value) {
      return value + 1 == n ? throw std::runtime_error("broken") : value;
    };
    const auto all = [](std::uint64_t) { return true; };
    const auto pipeline = served_numbers() | fl::map(fails) | fl::filter(all) | fl::prefetch(4096);
    away = n;
    auto loader = pipeline.finite({.on_error = fl::on_error::skip});
    std::uint64_t sum = 0;
    try {
      while (const auto value = loader.next()) sum += *value;
    } catch (const fl::pipeline_error&) {
      away = count;
    }
    REQUIRE(away == count);
    auto resumed = pipeline.finite({.on_error = fl::on_error::skip, .resume = loader.checkpoint()});
    while (const auto value = resumed.next()) sum += *value;
    CHECK(sum == count * (count - 1) / 2 - (n - 1));
  }
}

TEST_CASE("A resumed chain reads no more than it has to") {
  static std::atomic<std::size_t> reads;

  struct counted_numbers : odd_numbers {
    std::optional<std::uint64_t> next() {
      ++reads;
      return odd_numbers::next();
    }
  };

  const auto pipeline = chain_of(counted_numbers()) | fl::batch(100) | fl::prefetch(1);
  auto loader = pipeline.finite({.on_error = fl::on_error::skip});
  for (int i = 0; i < 20; ++i) REQUIRE(loader.next());
  const auto checkpoint = loader.checkpoint();
  loader.stop();
  reads = 0;
  auto resumed = pipeline.finite({.on_error = fl::on_error::skip, .resume = checkpoint});
  std::size_t rest = 0;
  while (resumed.next()) ++rest;
  CHECK(rest == (by_hand(odd_numbers()).values.size() + 99) / 100 - 20);
  CHECK(reads < 1200); // of 3000
}

TEST_CASE("A filter at the end of a segment resumes at each item") {
  using namespace feedline::test;
  const auto text = [](std::uint64_t n) { return "a text that has memory of its own: " + std::to_string(n); };
  const auto keeps = [](const std::string& s) { return s.back() != '7'; };
  leave_and_resume("filtered texts", 20, [&](draw&, const circumstances& c) {
    return odd_numbers() | fl::map(text, fl::workers{c.workers}) | fl::filter(keeps) | fl::prefetch(c.queue);
  });
}

TEST_CASE("Each rank has its share of a chain's values") {
  std::vector<std::uint64_t> all;
  for (std::uint32_t number = 0; number < 3; ++number) {
    auto loader =
        (chain_of(odd_numbers()) | fl::batch(64))
            .finite({.on_error = fl::on_error::skip,
                     .rank = {.number = number, .world_size = 3, .remainder = fl::remainder::keep}});
    while (const auto batch = loader.next())
      for (const fl::sample_id& id : batch->ids()) all.push_back(id.index);
  }
  std::sort(all.begin(), all.end());
  CHECK(all == by_hand(odd_numbers()).indices);
}

TEST_CASE("A source's values may refer to it, and it may have constructors that take anything") {
  struct table {
    std::optional<const std::uint64_t*> next() {
      return at < count ? std::optional<const std::uint64_t*>(&values[at++ % values.size()]) : std::nullopt;
    }

    std::array<std::uint64_t, 4> values{3, 1, 4, 1};
    std::uint64_t at = 0;
  };

  const auto value = [](const std::uint64_t* of) { return *of; };
  std::vector<std::uint64_t> all;
  for (const std::uint64_t n : (table() | fl::map(value)).finite()) all.push_back(n);
  REQUIRE(all.size() == count);
  for (std::size_t i = 0; i < count; ++i) CHECK(all[i] == table().values[i % 4]);

  std::uint64_t expected = 0;
  for (const std::uint64_t n : (greedy(0) | fl::map([](std::uint64_t n) { return n; })).finite())
    CHECK(n == expected++);
  CHECK(expected == count);
}

TEST_CASE("A run stops in the middle of a row") {
  const feedline::test::watchdog guard("stopped in a row");
  std::atomic<std::uint64_t> last{0};
  std::atomic<bool> waits{false};
  const auto wait = [&](std::uint64_t n, const fl::context& c) {
    last = n;
    if (n == 2000) {
      waits = true;
      waits.notify_all();
      while (!c.stop.stop_requested()) std::this_thread::yield();
    }
    return n;
  };
  const auto all = [](std::uint64_t) { return true; };
  {
    auto loader = (fl::from(std::views::iota(std::uint64_t{0}, count)) | fl::map(wait) | fl::filter(all) |
                   fl::batch(2 * count))
                      .finite();
    waits.wait(false);
  }
  CHECK(last < 2016); // quick values are worked on up to 16 at a time
}

namespace {

/// Counts how many objects of hold_row() exist, and how many there were.
struct holding {
  struct held {
    explicit held(std::atomic<int>& now) : now_(now) { ++now_; }

    held(held&&) = delete;

    ~held() { --now_; }

   private:
    std::atomic<int>& now_;
  };

  held hold_row() const {
    ++*rows;
    return held(*now);
  }

  std::uint64_t operator()(std::uint64_t n) const {
    if (*now > 0) ++*calls_in_rows;
    return n;
  }

  std::shared_ptr<std::atomic<int>> rows = std::make_shared<std::atomic<int>>(0);
  std::shared_ptr<std::atomic<int>> now = std::make_shared<std::atomic<int>>(0);
  std::shared_ptr<std::atomic<int>> calls_in_rows = std::make_shared<std::atomic<int>>(0);
};

} // namespace

TEST_CASE("What a function's hold_row() returns exists while a row passes it") {
  const feedline::test::watchdog guard("held rows");
  const holding mapped;
  std::uint64_t items = 0;
  for ([[maybe_unused]] const auto& batch :
       (fl::from(std::views::iota(std::uint64_t{0}, std::uint64_t{100'000})) |
        fl::map(mapped, fl::workers{2}) | fl::batch(100))
           .finite())
    items += 100;
  CHECK(items == 100'000);
  CHECK(*mapped.now == 0);
  CHECK(*mapped.rows > 0);
  CHECK(*mapped.rows < 50'000); // several items pass in one
  CHECK(*mapped.calls_in_rows > 50'000);
}
