// SPDX-License-Identifier: MIT
#include <feedline/core/source.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/sanitizers.hpp"
#include "support/throws_saying.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

// A user's source needs only next().
struct fibonacci {
  std::optional<int> next() {
    if (a > 100) return std::nullopt;
    return std::exchange(a, std::exchange(b, a + b));
  }

  int a = 0, b = 1;
};

// A source with every optional member.
struct rows {
  static constexpr fl::source_traits traits{.kind = "rows"};

  void start_epoch(const fl::epoch& e) { at = e.shuffled ? 3 + e.number : 0; }

  std::optional<std::string> next() {
    if (at == 10) return std::nullopt;
    if (at == 5) throw std::runtime_error("row " + std::to_string(at++) + " is torn");
    return "row " + std::to_string(at++);
  }

  std::uint64_t index() const { return 1000 + at - 1; }

  std::string origin(std::uint64_t index) const { return "rows.txt:" + std::to_string(index - 1000); }

  std::uint64_t at = 0;
};

namespace {

struct not_copyable {
  std::optional<int> next() { return std::nullopt; }

  std::unique_ptr<int> resource;
};

struct gives_no_optional {
  int next() { return 1; }
};

struct epochs_seen {
  std::shared_ptr<std::vector<fl::epoch>> seen = std::make_shared<std::vector<fl::epoch>>();
  bool given = false;

  void start_epoch(const fl::epoch& e) { seen->push_back(e); }

  std::optional<int> next() {
    if (std::exchange(given, true)) return std::nullopt;
    return static_cast<int>(seen->back().number);
  }
};

} // namespace

TEST_CASE("A source is a copyable class whose next() returns an optional") {
  STATIC_REQUIRE(fl::source<fibonacci>);
  STATIC_REQUIRE(fl::source<rows>);
  STATIC_REQUIRE_FALSE(fl::source<not_copyable>);
  STATIC_REQUIRE_FALSE(fl::source<gives_no_optional>);
  STATIC_REQUIRE_FALSE(fl::source<int>);
  STATIC_REQUIRE(std::same_as<fl::source_item_t<rows>, std::string>);
}

TEST_CASE("A user's source can be followed by a stage, directly or through from()") {
  const std::vector<int> expected{0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
  CHECK(collect((fibonacci{} | fl::prefetch(4)).finite()) == expected);
  CHECK(collect((fl::from(fibonacci{}) | fl::prefetch(4)).finite()) == expected);
}

TEST_CASE("Each epoch of each run uses a fresh copy of the source") {
  const auto p = fl::from(fibonacci{}) | fl::take(3);
  CHECK(collect(p.finite({.epochs = 3})) == std::vector<int>{0, 1, 1, 0, 1, 1, 0, 1, 1});
  CHECK(collect(p.infinite(), 5) == std::vector<int>{0, 1, 1, 0, 1});
}

TEST_CASE("A source receives the seed, the number of the epoch and whether there are several") {
  epochs_seen source;
  const auto p = fl::from(source) | fl::prefetch(1);
  collect(p.finite({.seed = 9}));
  REQUIRE(source.seen->size() == 1);
  CHECK(source.seen->back().seed == 9);
  CHECK_FALSE(source.seen->back().shuffled);

  source.seen->clear();
  CHECK(collect(p.finite({.seed = 8, .epochs = 2})) == std::vector<int>{0, 1});
  REQUIRE(source.seen->size() == 2);
  CHECK(source.seen->back().seed == 8);
  CHECK(source.seen->back().number == 1);
  CHECK(source.seen->back().shuffled);

  source.seen->clear();
  CHECK(collect(p.infinite(), 3) == std::vector<int>{0, 1, 2});
  CHECK(source.seen->front().shuffled);
}

TEST_CASE("A source that throws in the middle ends the stream there, or continues with skip") {
  const auto p = fl::from(rows{}) | fl::prefetch(100);
  const auto failed = run_to_end(p.finite());
  CHECK(failed.items == std::vector<std::string>{"row 0", "row 1", "row 2", "row 3", "row 4"});
  REQUIRE(failed.failed);
  CHECK(to_string(*failed.failed) == "rows failed after 5 samples of epoch 0: row 5 is torn");

  const auto skipped = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(skipped.items.size() == 9);
  CHECK(skipped.items.back() == "row 9");
  REQUIRE(skipped.skipped.size() == 1);
  CHECK(skipped.skipped[0].index == fl::sample_id::no_index);
  CHECK(skipped.skipped[0].message == "row 5 is torn");
  CHECK(skipped.skipped[0].samples_before == 5);
  const auto second = run_to_end(p.finite({.epochs = 2}));
  REQUIRE(second.failed);
  CHECK(to_string(*second.failed) == "rows failed after 2 samples of epoch 0: row 5 is torn");
}

TEST_CASE("Indices and origins are those of the source if it has them") {
  const auto fails = [](const std::string& row) {
    if (row == "row 7") throw unlucky(7);
    return row;
  };
  const auto outcome = run_to_end((fl::from(rows{}) | fl::map(fails, fl::workers{3}))
                                      .finite({.epochs = 3, .on_error = fl::on_error::skip}));
  CHECK(outcome.items.size() == (7 - 2) + (6 - 2) + (5 - 2));
  REQUIRE(outcome.skipped.size() == 6);
  for (const fl::failure& f : outcome.skipped)
    if (f.stage == "map") {
      CHECK(f.index == 1007);
      CHECK(f.origin == "rows.txt:7");
    }

  auto batches = (fl::from(fibonacci{}) | fl::batch(100)).finite();
  const auto batch = batches.next();
  REQUIRE(batch);
  for (std::size_t i = 0; i < batch->size(); ++i) CHECK(batch->ids()[i].index == i); // counted by default
}

namespace {

struct copy_throws {
  std::shared_ptr<int> copies_left;

  explicit copy_throws(int copies) : copies_left(std::make_shared<int>(copies)) {}

  copy_throws(const copy_throws& other) : copies_left(other.copies_left) {
    if (--*copies_left < 0) throw unlucky(1);
  }

  copy_throws(copy_throws&&) = default;

  std::optional<int> next() { return std::nullopt; }
};

struct start_throws {
  void start_epoch(const fl::epoch& e) {
    if (e.number == 1) throw unlucky(2);
  }

  std::optional<int> next() {
    if (std::exchange(given, true)) return std::nullopt;
    return 5;
  }

  bool given = false;
};

} // namespace

TEST_CASE("A copy or a start of a source that throws is a failure of the source") {
  const watchdog guard("source that can't start");
  const auto p = fl::from(copy_throws(100)) | fl::prefetch(1);
  *p.source().copies_left = 0; // none for its epoch; the run shares the described one
  const auto copied = run_to_end(p.finite());
  REQUIRE(copied.failed);
  CHECK(copied.failed->message == "unlucky 1");

  const auto started = run_to_end((start_throws{} | fl::batch(4)).finite({.epochs = 3}));
  CHECK(started.items.size() == 1);
  REQUIRE(started.failed);
  CHECK(started.failed->message == "unlucky 2");
  CHECK(started.failed->epoch == 1);
}

TEST_CASE("An infinite run over a source without samples is an error, not a loop") {
  const watchdog guard("empty source");
  for (const std::size_t workers : {1u, 8u}) {
    const auto p =
        fl::from(numbers(0)) | fl::map([](int n) { return n; }, fl::workers{workers}) | fl::batch(2);
    const auto outcome = run_to_end(p.infinite());
    CHECK(outcome.items.empty());
    REQUIRE(outcome.failed);
    CHECK(outcome.failed->stage == "numbers");
    CHECK(outcome.failed->message.find("no sample in a whole epoch") != std::string::npos);
    CHECK(collect(p.finite({.epochs = 5})).empty());

    const auto all_bad = fl::from(numbers(3, {0, 1, 2, 1000000, 1000001, 1000002})) | fl::batch(2);
    const auto skipped = run_to_end(all_bad.infinite({.on_error = fl::on_error::skip}));
    REQUIRE(skipped.failed);
    CHECK(skipped.skipped.size() == 3);
  }
}

namespace {

/// Never ends: a function computes the index of its n-th sample from n.
struct endless {
  using function = std::uint64_t (*)(std::uint64_t);

  std::optional<int> next() {
    ++given;
    if (fails) throw std::runtime_error("the server is down");
    return 1;
  }

  std::uint64_t index() const { return index_of(given - 1); }

  function index_of;
  bool fails = false;
  std::uint64_t given = 0;
};

/// The same with seek().
struct endless_with_places : endless {
  void seek(std::uint64_t index) { given = index / 2; }
};

} // namespace

TEST_CASE("A replay ends for a sample that an endless source doesn't have") {
  const watchdog guard("replay of an endless source");
  const endless even{[](std::uint64_t n) { return 2 * n; }};
  const endless round_robin{[](std::uint64_t n) { return n * 7 % 1000; }};
  const auto replays = [](auto source, std::uint64_t index) {
    return (fl::from(std::move(source)) | fl::prefetch(1)).replay(0, {index});
  };
  CHECK(replays(even, 8) == 1);
  CHECK(replays(round_robin, 999) == 1);
  const auto gives_up = [&](const std::string& why, auto source, std::uint64_t index) {
    const std::string all =
        "sample " + std::to_string(index) + " of epoch 0 was not found: the source " + why;
    CHECK(throws_saying<std::runtime_error>(all, [&] { replays(source, index); }));
  };
  if (!is_sanitized) gives_up("has yielded 100 million other samples", endless_with_places{even}, 9);
  gives_up("has failed 100,000 times in a row", endless{even.index_of, true}, 8);
}

TEST_CASE("A replay of an endless source without any order can be stopped") {
  const watchdog guard("stopped replay");
  std::stop_source stop;

  struct stopping : endless {
    std::optional<int> next() {
      if (given == 1000) stop->request_stop();
      return endless::next();
    }

    std::stop_source* stop = nullptr;
  };

  stopping source{{[](std::uint64_t n) { return fl::detail::key(n) | 1; }}};
  source.stop = &stop;
  CHECK_FALSE(
      (fl::from(source) | fl::prefetch(1)).replay(fl::infinite_options{.stop = stop.get_token()}, {2}));
}
