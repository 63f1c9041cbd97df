// SPDX-License-Identifier: MIT
// Each slip in a source is found, with a sentence that says what it is.
#include <feedline/testing/check_source.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <feedline/feedline.hpp>

#include "support/broken_promises.hpp"
#include "support/catch.hpp"
#include "support/outcome.hpp"

namespace fl = feedline;
using namespace feedline::test;
using fl::testing::check_source;

namespace {

enum class slip {
  none,
  index_twice,
  index_of_place_in_order,
  forgets_state,
  reads_less,
  skips_one_more,
  goes_beyond,
  goes_nowhere,
  goes_back_wrongly,
  at_differs,
  finds_neighbour,
  finds_what_is_not_there,
  counts_one_less,
  origin_throws,
  address_in_fingerprint,
  shares_its_place,
  depends_on_time,
  goes_on_behind_the_end,
  loses_one_in_second_epoch,
  waits_for_ever,
  differs_in_a_run,
  differs_on_ranks,
  hides_failures_in_a_run,
  reads_damaged_places,
};

int made_ever = 0;
gate way_out;

/// Twelve numbers, in each epoch rotated by its number; the index of number n is 10 n.
struct rotated {
  static constexpr fl::source_traits traits{.kind = "rotated"};
  static constexpr std::uint64_t count = 12, none = 99;

  explicit rotated(slip w, std::uint64_t damaged_ = none) : what(w), number(++made_ever), damaged(damaged_) {}

  void start_epoch(const fl::epoch& e) {
    epoch = e.number;
    in_run = e.stop.stop_possible();
    first = what == slip::differs_on_ranks && !e.rank.is_alone() ? 5 + e.rank.number : e.number * 5;
  }

  std::optional<int> next() {
    std::uint64_t& reached = what == slip::shares_its_place ? *shared : at;
    const bool loses = what == slip::loses_one_in_second_epoch && epoch == 1;
    if (reached == count - loses) {
      if (what != slip::goes_on_behind_the_end || in_run) return std::nullopt;
      reached = 0;
      return std::nullopt;
    }
    if (what == slip::waits_for_ever && in_run && reached == 5) way_out.pass();
    last = (first + reached++) % count;
    calls += 1;
    if (last == damaged) {
      if (what == slip::hides_failures_in_a_run && in_run) return next();
      throw std::runtime_error("damaged");
    }
    if (what == slip::differs_in_a_run && in_run && last == 5) return 77;
    if (what == slip::depends_on_time && number % 2 == 1 && reached == 3) return 99;
    return static_cast<int>(last * (what == slip::forgets_state ? calls : 1));
  }

  std::uint64_t index() const {
    if (what == slip::index_twice && last == 7) return 30;
    if (what == slip::index_of_place_in_order) return at;
    return 10 * last;
  }

  void state(auto& archive) {
    constexpr bool is_reading = requires { archive.left(); };
    if (is_reading && what == slip::reads_less) return archive(at);
    archive(at, last);
    if (what != slip::forgets_state) archive(calls);
  }

  void skip(std::uint64_t n) {
    at += n + (what == slip::skips_one_more && n > 3 ? 1 : 0);
    at = std::min(at, count);
    calls += n;
  }

  void go_near(std::uint64_t index) {
    std::uint64_t wanted = index / 10;
    if (what == slip::goes_nowhere) return;
    if (what == slip::goes_beyond) ++wanted;
    if (what == slip::goes_back_wrongly && at > 6) wanted = 0;
    first = 0;
    at = std::min(wanted, count);
  }

  std::string origin(std::uint64_t index) const {
    if (what == slip::origin_throws && index == 40) throw std::out_of_range("no such name");
    return "number " + std::to_string(index / 10);
  }

  std::uint64_t extent() const { return count; }

  std::uint64_t fingerprint(std::uint64_t extent) const {
    return what == slip::address_in_fingerprint ? static_cast<std::uint64_t>(number) : extent;
  }

  std::uint64_t size() const { return what == slip::counts_one_less ? count - 1 : count; }

  int at_place(std::uint64_t place) const {
    if (place == damaged && what != slip::reads_damaged_places) throw std::runtime_error("damaged");
    return static_cast<int>(place) + (what == slip::at_differs && place == 8);
  }

  std::uint64_t index_at(std::uint64_t place) const { return 10 * place; }

  std::optional<std::uint64_t> find(std::uint64_t index) const {
    if (what == slip::finds_neighbour && index == 60) return 5;
    if (index % 10 == 0 && index / 10 < size()) return index / 10;
    return what == slip::finds_what_is_not_there ? std::optional<std::uint64_t>(0) : std::nullopt;
  }

  struct by_place {
    std::uint64_t size() const { return all.size(); }

    int at(std::uint64_t place) const { return all.at_place(place); }

    std::uint64_t index_at(std::uint64_t place) const { return all.index_at(place); }

    std::optional<std::uint64_t> find(std::uint64_t index) const { return all.find(index); }

    std::shared_ptr<const rotated> owner;
    const rotated& all = *owner;
  };

  auto indexed() const { return by_place{std::make_shared<const rotated>(*this)}; }

  slip what;
  int number;
  std::uint64_t damaged;
  std::uint64_t at = 0, last = 0, first = 0, calls = 0;
  std::uint32_t epoch = 0;
  bool in_run = false;
  std::shared_ptr<std::uint64_t> shared = std::make_shared<std::uint64_t>(0);
};

std::string found(slip what, std::uint64_t damaged = rotated::none) {
  std::string text = broken_promises(
      [&] { check_source([=] { return rotated(what, damaged); }, {.patience = std::chrono::seconds(3)}); });
  UNSCOPED_INFO(text);
  return text;
}

} // namespace

TEST_CASE("A source that keeps all promises passes") { CHECK(found(slip::none).empty()); }

TEST_CASE("Indices that don't name a sample are found") {
  CHECK(says(found(slip::index_twice),
             "An index is unique in its epoch: sample 7 of epoch 0, 7, has the index 30 of an earlier one"));
  CHECK(says(found(slip::index_of_place_in_order),
             "An index is the same sample in every epoch: 1 is 0 first and 5 in epoch 1"));
}

TEST_CASE("A place that isn't taken up again is found") {
  CHECK(says(found(slip::forgets_state), "A source goes on where its state says"));
  CHECK(says(found(slip::reads_less),
             "A state is read as it was written: state() wrote 3 words before sample 0 and read 1"));
  CHECK(says(found(slip::skips_one_more),
             "skip(n) goes on as n calls of next() would: after skip(4) come others: sample 4"));
}

TEST_CASE("A go_near() that doesn't lead there is found") {
  CHECK(says(found(slip::goes_beyond), "go_near(0) is not followed by it"));
  CHECK(says(found(slip::goes_nowhere), "after others by rising index, is not followed by it"));
  CHECK(found(slip::goes_back_wrongly).empty()); // slow, but in time
}

TEST_CASE("Samples by their place that are others than next() gives are found") {
  CHECK(says(found(slip::at_differs),
             "at place 8, with the index 80, is 9, while next() gave 8 with that index"));
  CHECK(says(found(slip::finds_neighbour), "find(60) is 5, not 6"));
  CHECK(says(found(slip::finds_what_is_not_there), "is a place, though no sample has that index"));
  CHECK(says(found(slip::counts_one_less), "11 places can be read, 12 samples come of next()"));
}

TEST_CASE("What a source says of itself is looked at") {
  CHECK(says(found(slip::origin_throws),
             "origin(index) names every sample: for index 40 it throws: no such name"));
  CHECK(says(found(slip::address_in_fingerprint), "A fingerprint is the same in another process"));
}

TEST_CASE("A source that doesn't depend on the epoch alone is found") {
  CHECK(says(found(slip::shares_its_place),
             "Copies are independent: the same source, copied once more, read in epoch 0, gives others"));
  CHECK(says(found(slip::depends_on_time), "The same seed gives the same items"));
  CHECK(says(found(slip::differs_in_a_run), "A run gives what its source gives"));
}

TEST_CASE("Epochs that aren't whole are found") {
  CHECK(says(found(slip::goes_on_behind_the_end), "An epoch ends once"));
  CHECK(says(found(slip::loses_one_in_second_epoch),
             "Every epoch gives every sample once: epoch 1 lacks 1 samples of earlier ones"));
  CHECK(says(found(slip::differs_on_ranks), "Ranks share out each epoch"));
}

TEST_CASE("A source of which a sample can't be read is looked at as closely as another") {
  for (const std::uint64_t damaged : {0u, 5u, 11u}) {
    INFO(damaged << " is damaged");
    CHECK(found(slip::none, damaged).empty());
    CHECK(says(found(slip::differs_on_ranks, damaged), "Ranks share out each epoch"));
    CHECK(says(found(slip::hides_failures_in_a_run, damaged),
               "A run gives what its source gives: next() throws 2 times"));
    CHECK(
        says(found(slip::differs_in_a_run, damaged == 5 ? 6 : damaged), "A run gives what its source gives"));
    CHECK(says(found(slip::forgets_state, damaged), "A source goes on where its state says"));
    CHECK(says(found(slip::finds_neighbour, damaged), "find(60) is 5, not 6"));
    CHECK(says(found(slip::finds_what_is_not_there, damaged), "is a place, though no sample has that index"));
    CHECK(says(found(slip::reads_damaged_places, damaged),
               "at(place) gives the samples that next() gives: that of place " + std::to_string(damaged)));
  }
  CHECK(says(found(slip::finds_neighbour, 6), "find(60) is 5, not 6"));
}

TEST_CASE("A hang of a source is told with what was being done") {
  const std::string text = broken_promises([] {
    check_source([all = way_out.membership()] { return rotated(slip::waits_for_ever); },
                 {.patience = std::chrono::seconds(3)});
  });
  INFO(text);
  CHECK(says(text, "A run never hangs: nothing happened for 3 s while the check ran a finite pipeline"));
  way_out.open();
}

namespace {

struct only_next {
  std::optional<std::string> next() {
    return left > 0 ? std::optional(std::string(left--, 'x')) : std::nullopt;
  }

  std::size_t left = 9;
};

/// Some can't be read.
struct with_gaps {
  std::optional<int> next() {
    if (at == 11) return std::nullopt;
    if (at++ % 4 == 2) throw std::runtime_error("damaged");
    return at;
  }

  int at = 0;
};

struct squares {
  static constexpr fl::source_traits traits{.kind = "squares"};

  std::uint64_t size() const { return 10; }

  std::uint64_t at(std::uint64_t place) const {
    return place == damaged ? throw std::runtime_error("damaged") : place * place;
  }

  std::uint64_t damaged = 10;
};

} // namespace

TEST_CASE("Small sources pass: with next() alone, with size() and at(), with samples that can't be read, and "
          "empty ones") {
  check_source([] { return only_next(); });
  check_source([] { return with_gaps(); });
  for (const std::uint64_t damaged : {0u, 5u, 9u, 10u})
    check_source([=] { return squares{damaged}; }, {.has_budget = true});
  check_source([] { return only_next{0}; });
}

namespace {

struct longer_than_said {
  std::optional<std::string> next() {
    return at < 9 ? std::optional(std::string(at++ * 9, 'x')) : std::nullopt;
  }

  std::optional<std::size_t> largest_item() const { return sizeof(std::string) + 40; }

  std::size_t at = 0;
};

} // namespace

TEST_CASE("A sample that is larger than largest_item() says is found") {
  const std::string text = broken_promises([] { check_source([] { return longer_than_said(); }); });
  INFO(text);
  CHECK(says(text, "largest_item() is the most bytes that a sample takes: it is 72, but one takes"));
}

TEST_CASE("A source that is too large for the check is refused") {
  CHECK_THROWS_AS(check_source([] { return squares(); }, {.most_items = 5}), std::invalid_argument);
}
