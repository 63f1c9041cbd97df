// SPDX-License-Identifier: MIT
#include <feedline/core/source.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/catch.hpp"
#include "support/numbers.hpp"
#include "support/outcome.hpp"
#include "support/watchdog.hpp"

namespace fl = feedline;
using namespace feedline::test;

// A source of a user's own: all it needs is next().
struct fibonacci {
  std::optional<int> next() {
    if (a > 100) return std::nullopt;
    return std::exchange(a, std::exchange(b, a + b));
  }

  int a = 0, b = 1;
};

// One that uses all that a source may have.
struct rows {
  static constexpr const char* kind = "rows";

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

TEST_CASE("A source is a copyable class whose next() gives an optional") {
  STATIC_REQUIRE(fl::source<fibonacci>);
  STATIC_REQUIRE(fl::source<rows>);
  STATIC_REQUIRE_FALSE(fl::source<not_copyable>);
  STATIC_REQUIRE_FALSE(fl::source<gives_no_optional>);
  STATIC_REQUIRE_FALSE(fl::source<int>);
  STATIC_REQUIRE(std::same_as<fl::source_item_t<rows>, std::string>);
}

TEST_CASE("A user's own source stands in front of a stage, alone or through from()") {
  const std::vector<int> expected{0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
  CHECK(collect((fibonacci{} | fl::prefetch(4)).finite()) == expected);
  CHECK(collect((fl::from(fibonacci{}) | fl::prefetch(4)).finite()) == expected);
}

TEST_CASE("Each epoch of each run works on a fresh copy of the source") {
  const auto p = fl::from(fibonacci{}) | fl::take(3);
  CHECK(collect(p.finite({.epochs = 3})) == std::vector<int>{0, 1, 1, 0, 1, 1, 0, 1, 1});
  CHECK(collect(p.infinite(), 5) == std::vector<int>{0, 1, 1, 0, 1});
}

TEST_CASE("A source is told the seed, the number of the epoch and whether there are several") {
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

TEST_CASE("A source that throws in the middle ends the stream there, or goes on with skip") {
  const auto p = fl::from(rows{}) | fl::prefetch(100);
  const auto failed = run_to_end(p.finite());
  CHECK(failed.items == std::vector<std::string>{"row 0", "row 1", "row 2", "row 3", "row 4"});
  REQUIRE(failed.failed);
  CHECK(to_string(*failed.failed) == "rows failed: row 5 is torn");

  const auto skipped = run_to_end(p.finite({.on_error = fl::on_error::skip}));
  CHECK(skipped.items.size() == 9);
  CHECK(skipped.items.back() == "row 9");
  REQUIRE(skipped.skipped.size() == 1);
  CHECK(skipped.skipped[0].index == fl::sample_id::no_index);
  CHECK(skipped.skipped[0].message == "row 5 is torn");
}

TEST_CASE("Indices and origins are the source's own where it has them") {
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

TEST_CASE("A source that can't be copied for an epoch, or started, is a failure of the source") {
  const watchdog guard("source that can't start");
  const auto p = fl::from(copy_throws(100)) | fl::prefetch(1);
  *p.source().copies_left = 1; // for the run, none for its epoch
  const auto copied = run_to_end(p.finite());
  REQUIRE(copied.failed);
  CHECK(copied.failed->message == "unlucky 1");
  *p.source().copies_left = 0;
  CHECK_THROWS_AS(p.finite(), unlucky);

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
