// SPDX-License-Identifier: MIT
// Every kind of mistake in a source is found, with a sentence that names it.
#include <feedline/testing/check_source.hpp>

#include <atomic>
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
#include "support/printed.hpp"
#include "support/rounds.hpp"

namespace fl = feedline;
using namespace feedline::test;
using fl::testing::check_source;

namespace {

enum class slip {
  none,
  index_twice,
  index_of_position_in_order,
  forgets_state,
  reads_less,
  skips_one_more,
  goes_beyond,
  goes_nowhere,
  goes_back_wrongly,
  at_differs,
  finds_neighbour,
  finds_a_missing_index,
  counts_one_less,
  origin_throws,
  address_in_fingerprint,
  shares_its_position,
  depends_on_time,
  continues_after_the_end,
  loses_one_in_second_epoch,
  waits_endlessly,
  differs_in_a_run,
  differs_on_ranks,
  hides_failures_in_a_run,
  reads_damaged_positions,
};

int total_made = 0;
gate way_out;

/// Twelve numbers, in each epoch rotated by its number; the index of number n is 10 n.
struct rotated {
  static constexpr fl::source_traits traits{.kind = "rotated"};
  static constexpr std::uint64_t count = 12, none = 99;

  explicit rotated(slip w, std::uint64_t damaged_ = none)
      : what(w), number(++total_made), damaged(damaged_) {}

  void start_epoch(const fl::epoch& e) {
    epoch = e.number;
    in_run = e.stop.stop_possible();
    first = what == slip::differs_on_ranks && !e.rank.is_alone() ? 5 + e.rank.number : e.number * 5;
  }

  std::optional<int> next() {
    std::uint64_t& reached = what == slip::shares_its_position ? *shared : at;
    const bool loses = what == slip::loses_one_in_second_epoch && epoch == 1;
    if (reached == count - loses) {
      if (what != slip::continues_after_the_end || in_run) return std::nullopt;
      reached = 0;
      return std::nullopt;
    }
    if (what == slip::waits_endlessly && in_run && reached == 5) way_out.pass();
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
    if (what == slip::index_of_position_in_order) return at;
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

  void seek(std::uint64_t index) {
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

  int at_position(std::uint64_t position) const {
    if (position == damaged && what != slip::reads_damaged_positions) throw std::runtime_error("damaged");
    return static_cast<int>(position) + (what == slip::at_differs && position == 8);
  }

  std::uint64_t index_at(std::uint64_t position) const { return 10 * position; }

  std::optional<std::uint64_t> find(std::uint64_t index) const {
    if (what == slip::finds_neighbour && index == 60) return 5;
    if (index % 10 == 0 && index / 10 < size()) return index / 10;
    return what == slip::finds_a_missing_index ? std::optional<std::uint64_t>(0) : std::nullopt;
  }

  struct by_position {
    std::uint64_t size() const { return all.size(); }

    int at(std::uint64_t position) const { return all.at_position(position); }

    std::uint64_t index_at(std::uint64_t position) const { return all.index_at(position); }

    std::optional<std::uint64_t> find(std::uint64_t index) const { return all.find(index); }

    std::shared_ptr<const rotated> owner;
    const rotated& all = *owner;
  };

  auto indexed() const { return by_position{std::make_shared<const rotated>(*this)}; }

  slip what;
  int number;
  std::uint64_t damaged;
  std::uint64_t at = 0, last = 0, first = 0, calls = 0;
  std::uint32_t epoch = 0;
  bool in_run = false;
  std::shared_ptr<std::uint64_t> shared = std::make_shared<std::uint64_t>(0);
};

std::string found(slip what, std::uint64_t damaged = rotated::none) {
  std::string text = broken_promises([&] {
    check_source([=] { return rotated(what, damaged); },
                 {.places = rounds(std::size_t{30}, 8), .patience = std::chrono::minutes(2)});
  });
  UNSCOPED_INFO(text);
  return text;
}

} // namespace

// First, as a notice is printed once in a process.
TEST_CASE("A source that keeps all promises passes without a notice") {
  CHECK(printed([] { check_source([] { return rotated(slip::none); }); }).empty());
}

TEST_CASE("A source that keeps all promises passes, also with what a check needs of it") {
  CHECK(found(slip::none).empty());
}

TEST_CASE("Indices that don't name a sample are found") {
  CHECK(says(found(slip::index_twice),
             "An index is unique in its epoch: sample 7 of epoch 0, 7, has the index 30 of an earlier one"));
  CHECK(says(found(slip::index_of_position_in_order),
             "An index identifies the same sample in every epoch: 1 is 0 at first and 5 in epoch 1"));
}

TEST_CASE("A source that doesn't continue from its state is found") {
  CHECK(says(found(slip::forgets_state), "A source continues from its state"));
  CHECK(says(found(slip::reads_less),
             "A state is read as it was written: state() wrote 3 words before sample 0 and read 1"));
  CHECK(says(found(slip::skips_one_more), "skip(n) acts like n calls of next(): after skip("));
}

TEST_CASE("A seek() that doesn't lead to its sample is found") {
  CHECK(says(found(slip::goes_beyond), "seek(0) doesn't lead to it"));
  CHECK(says(found(slip::goes_nowhere), "called after smaller indices, doesn't lead to it"));
  CHECK(found(slip::goes_back_wrongly).empty()); // slow, but in time
}

TEST_CASE("Differences between at(position) and next() are found") {
  CHECK(says(found(slip::at_differs),
             "position 8, with the index 80, is 9, but next() returned 8 with that index"));
  CHECK(says(found(slip::finds_neighbour), "find(60) is 5, not 6"));
  CHECK(says(found(slip::finds_a_missing_index), "is a position, though no sample has that index"));
  CHECK(says(found(slip::counts_one_less), "11 positions can be read, but next() returned 12 samples"));
}

TEST_CASE("A source's descriptions of itself are checked") {
  CHECK(says(found(slip::origin_throws),
             "origin(index) names every sample: for index 40 it throws: no such name"));
  CHECK(says(found(slip::address_in_fingerprint), "A fingerprint is the same in another process"));
}

TEST_CASE("A source that depends on more than the epoch is found") {
  CHECK(
      says(found(slip::shares_its_position),
           "Copies are independent: another copy of the same source, read in epoch 0, yields other samples"));
  CHECK(says(found(slip::depends_on_time), "The same seed yields the same samples"));
  CHECK(says(found(slip::differs_in_a_run), "A run yields what its source yields"));
}

TEST_CASE("Incomplete epochs are found") {
  CHECK(says(found(slip::continues_after_the_end), "An epoch ends once"));
  CHECK(says(found(slip::loses_one_in_second_epoch),
             "Every epoch yields every sample once: epoch 1 lacks 1 samples of earlier ones"));
  CHECK(says(found(slip::differs_on_ranks), "Ranks divide each epoch"));
}

TEST_CASE("A part with workers whose results depend on more than the sample is found") {
  const std::string text = broken_promises([] {
    const auto calls = std::make_shared<std::atomic<int>>(0);
    check_source([calls] {
      const auto counted = [calls](int n) { return 10 * n + (*calls)++; };
      return fl::concat(fl::from(count_to(5)) | fl::map(counted, fl::workers{2}), fl::from(count_to(3)));
    });
  });
  INFO(text);
  CHECK(says(text, "The same seed yields the same items: a second run yields other items"));
}

TEST_CASE("A source with an unreadable sample is checked as thoroughly as another") {
  constexpr std::uint64_t samples[] = {5, 0, 11};
  for (int i = 0; i < rounds(3, 1); ++i) {
    const std::uint64_t damaged = samples[i];
    INFO(damaged << " is damaged");
    CHECK(found(slip::none, damaged).empty());
    CHECK(says(found(slip::differs_on_ranks, damaged), "Ranks divide each epoch"));
    CHECK(says(found(slip::hides_failures_in_a_run, damaged),
               "A run yields what its source yields: next() throws 2 times"));
    CHECK(says(found(slip::differs_in_a_run, damaged == 5 ? 6 : damaged),
               "A run yields what its source yields"));
    CHECK(says(found(slip::forgets_state, damaged), "A source continues from its state"));
    CHECK(says(found(slip::finds_neighbour, damaged), "find(60) is 5, not 6"));
    CHECK(
        says(found(slip::finds_a_missing_index, damaged), "is a position, though no sample has that index"));
    CHECK(says(found(slip::reads_damaged_positions, damaged),
               "at(position) and next() return the same samples: position " + std::to_string(damaged)));
  }
  CHECK(says(found(slip::finds_neighbour, 6), "find(60) is 5, not 6"));
}

TEST_CASE("A hang of a source is reported with the step in which it happened") {
  const std::string text = broken_promises([] {
    check_source([all = way_out.membership()] { return rotated(slip::waits_endlessly); },
                 {.patience = std::chrono::seconds(3)});
  });
  INFO(text);
  CHECK(says(text, "A run never hangs: nothing happened for 3 s while the check ran a finite pipeline"));
  way_out.open();
}

namespace {

/// Nine files of one number each, which ranks divide.
struct single_files {
  static constexpr fl::source_traits traits{.splits_files_by_rank = true};

  void start_epoch(const fl::epoch& e) {
    const bool divides = !e.rank.by_sample || !asks_for_samples;
    at = divides ? e.rank.number : 0;
    step = divides ? e.rank.world_size : 1;
  }

  std::optional<int> next() {
    if (at >= 9) return std::nullopt;
    last = at;
    at += step;
    return static_cast<int>(last);
  }

  std::uint64_t index() const { return last; }

  bool asks_for_samples;
  std::uint64_t at = 0, step = 1, last = 0;
};

} // namespace

TEST_CASE("A source that divides its files among ranks that divide samples is found") {
  check_source([] { return single_files{true}; });
  const std::string text = broken_promises([] { check_source([] { return single_files{false}; }); });
  INFO(text);
  CHECK(says(text, "Ranks divide each epoch: no rank of 2 with by_sample yields sample"));
}

namespace {

struct only_next {
  std::optional<std::string> next() {
    return left > 0 ? std::optional(std::string(left--, 'x')) : std::nullopt;
  }

  std::size_t left = 9;
};

/// Some samples can't be read.
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

  std::uint64_t at(std::uint64_t position) const {
    return position == damaged ? throw std::runtime_error("damaged") : position * position;
  }

  std::uint64_t damaged = 10;
};

} // namespace

TEST_CASE("Small sources pass: with next() alone, with size() and at(), with unreadable samples, and empty "
          "ones") {
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

  std::optional<std::size_t> max_item_bytes() const { return sizeof(std::string) + 40; }

  std::size_t at = 0;
};

} // namespace

TEST_CASE("A sample that is larger than max_item_bytes() is found") {
  const std::string text = broken_promises([] { check_source([] { return longer_than_said(); }); });
  INFO(text);
  CHECK(says(text, "max_item_bytes() is the most bytes that a sample takes: it is 72, but one takes"));
}

TEST_CASE("A source that is too large for the check is refused") {
  CHECK_THROWS_AS(check_source([] { return squares(); }, {.most_items = 5}), std::invalid_argument);
}
